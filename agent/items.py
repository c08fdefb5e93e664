"""Items on their way through the encoder and the task model, whether they come from a table or from records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agent.token_columns import token_logits
from agent.token_outputs import TokenLogits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agent.records import Record
    from agent.tables import Table


@dataclass(frozen=True)
class Items:
    """n texts, with their second texts, (n, C) logits and (n, d) features where the input carries them.

    A sequence labeller's items have the logits of their `tokens` instead.
    """

    texts: Sequence[str]
    pairs: Sequence[str | None] | None = None
    logits: NDArray[np.float64] | None = None
    features: NDArray[np.float64] | None = None
    tokens: TokenLogits | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def slice(self, start: int, end: int) -> Items:
        """The items from `start` to `end`."""
        return Items(
            self.texts[start:end],
            None if self.pairs is None else self.pairs[start:end],
            None if self.logits is None else self.logits[start:end],
            None if self.features is None else self.features[start:end],
            None if self.tokens is None else self.tokens.slice(start, end),
        )

    @classmethod
    def of_table(
        cls, table: Table, *, logits: int | None = None, features: int | None = None, tokens: bool = False
    ) -> Items:
        """The items of a table; `logits` and `features` are the widths of its list columns (None: unused).

        With `tokens` the table has a row of logits for each token.
        """
        return cls(
            texts=table.texts(),
            pairs=table.pairs(),
            logits=None if logits is None or tokens else table.matrix("logits", logits),
            features=None if features is None else table.matrix("features", features),
            tokens=None if logits is None or not tokens else token_logits(table, logits),
        )

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> Items:
        """The items of records that were parsed for this model, so that all or none carry logits and features."""
        pairs = [record.pair for record in records]
        return cls(
            texts=[record.text for record in records],
            pairs=pairs if any(pair is not None for pair in pairs) else None,
            logits=_stacked([record.logits for record in records]),
            features=_stacked([record.features for record in records]),
            tokens=_ragged([record.token_logits for record in records]),
        )


def _stacked(values: Sequence[tuple[float, ...] | None]) -> NDArray[np.float64] | None:
    if not values or values[0] is None:
        return None
    return np.array(values, np.float64)


def _ragged(values: Sequence[tuple[tuple[float, ...], ...] | None]) -> TokenLogits | None:
    items = [np.array(value, np.float64) for value in values if value is not None]
    return TokenLogits.of(items) if items else None

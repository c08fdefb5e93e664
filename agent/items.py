"""Items on their way through the encoder and the task model, whether they come from a table or from records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agent.records import Record
    from agent.tables import Table


@dataclass(frozen=True)
class Items:
    """n texts, with their second texts, (n, C) logits and (n, d) features where the input carries them."""

    texts: Sequence[str]
    pairs: Sequence[str | None] | None = None
    logits: NDArray[np.float64] | None = None
    features: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def slice(self, start: int, end: int) -> Items:
        """The items from `start` to `end`."""
        return Items(
            self.texts[start:end],
            None if self.pairs is None else self.pairs[start:end],
            None if self.logits is None else self.logits[start:end],
            None if self.features is None else self.features[start:end],
        )

    @classmethod
    def of_table(cls, table: Table, *, logits: int | None = None, features: int | None = None) -> Items:
        """The items of a table; `logits` and `features` are the widths of its list columns (None: unused)."""
        return cls(
            texts=table.texts(),
            pairs=table.pairs(),
            logits=None if logits is None else table.matrix("logits", logits),
            features=None if features is None else table.matrix("features", features),
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
        )


def _stacked(values: Sequence[tuple[float, ...] | None]) -> NDArray[np.float64] | None:
    if not values or values[0] is None:
        return None
    return np.array(values, np.float64)

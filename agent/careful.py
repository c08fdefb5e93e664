"""Scoring that one record cannot end: the record that the models break on is found, and lost alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agent.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.records import Record
    from agent.scorer import Scored

# What any encoder reads.
HARMLESS_TEXT = "text"


@dataclass(frozen=True)
class Careful:
    """Scores records with `score`; where it raises InferenceError, the records that cause it are not `finite`.

    Raises on if the models break on harmless text too: then no record is to blame.
    """

    score: Callable[[Sequence[Record]], Scored]

    def __call__(self, records: Sequence[Record]) -> Scored:
        """One row a record."""
        try:
            return self.score(records)
        except InferenceError:
            broken = self._broken(records, range(len(records)))
            scored = self.score([_harmless(each) if row in broken else each for row, each in enumerate(records)])
            blamed = np.isin(np.arange(len(records)), list(broken))
            return replace(scored, finite=scored.finite & ~blamed)

    def _broken(self, records: Sequence[Record], rows: range) -> set[int]:
        """The rows that the models break on, found by halves; none of them is known yet to be sound."""
        try:
            self.score([records[row] for row in rows])
        except InferenceError:
            if len(rows) == 1:
                return set(rows)
            middle = len(rows) // 2
            return self._broken(records, rows[:middle]) | self._broken(records, rows[middle:])
        return set()


def _harmless(record: Record) -> Record:
    return replace(record, text=HARMLESS_TEXT, pair=None)

"""Distance to the k-th nearest training item (Sun et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from detectors.contract import FitError, Matrix, Needed, Outputs, Source, Vector
from detectors.geometry import unit_rows
from detectors.nearest import Nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class KNN:
    """2 s_(k) - 2, s_(k) the k-th largest cosine to the bank: minus the squared distance of unit vectors.

    Works on the encoder's embedding, whatever the task model. The bank is kept in float16, which moves a
    cosine by less than 1e-3; it is the one detector whose cost grows with the source. How the k-th is found, and
    how surely, is said in `detectors.nearest`.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"embedding"})

    bank: NDArray[np.float16]
    k: int
    _nearest: Nearest = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_nearest", Nearest.of(self.bank.astype(np.float32)))

    @classmethod
    def fit(cls, source: Source, *, k: int = 50, most_rows: int = 50_000) -> Self:
        """Keep the training embeddings, or `most_rows` of them drawn with a fixed seed; k is clamped to n."""
        rows = source.train.embedding
        if not len(rows):
            raise FitError("no training rows to search")
        if len(rows) > most_rows:
            chosen = np.random.default_rng(0).choice(len(rows), most_rows, replace=False)
            rows = rows[np.sort(chosen)]
        return cls(bank=unit_rows(rows).astype(np.float16), k=min(k, len(rows)))

    def score(self, outputs: Outputs) -> Vector:
        """(n,) minus the squared distance to the k-th nearest bank row."""
        return self._kth(unit_rows(outputs.embedding), self.k)

    def leave_one_out(self) -> Vector:
        """(bank,) scores of the bank's own rows, each with itself left out. Needs more than one row."""
        if len(self.bank) == 1:
            raise FitError("a bank of one row has no other row to compare it with")
        # A row is its own nearest neighbour, so its k-th other one is the (k+1)-th in all.
        return self._kth(self._nearest.bank, min(self.k, len(self.bank) - 1) + 1)

    def _kth(self, rows: Matrix, k: int) -> Vector:
        cosines = self._nearest.kth_cosine(np.asarray(rows, np.float32), k)
        return 2 * cosines.astype(np.float64) - 2

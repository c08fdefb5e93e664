"""Distance to the k-th nearest training item (Sun et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from detectors.contract import FitError, Matrix, Needed, Outputs, Source, Vector
from detectors.geometry import unit_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rows scored at once: bounds the (block, bank) matrix of cosines to 50 MB with a bank of 50,000.
BLOCK = 256


@dataclass(frozen=True)
class KNN:
    """2 s_(k) - 2, s_(k) the k-th largest cosine to the bank: minus the squared distance of unit vectors.

    Works on the encoder's embedding, whatever the task model. The bank is kept in float16, which moves a
    cosine by less than 1e-3; it is the one detector whose cost grows with the source.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"embedding"})

    bank: NDArray[np.float16]
    k: int
    _bank: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bank", self.bank.astype(np.float32))

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
        return self._kth(self._bank, min(self.k, len(self.bank) - 1) + 1)

    def _kth(self, rows: Matrix, k: int) -> Vector:
        queries = np.asarray(rows, np.float32)
        scores = np.empty(len(queries))
        for start in range(0, len(queries), BLOCK):
            cosines = queries[start : start + BLOCK] @ self._bank.T
            scores[start : start + BLOCK] = np.partition(cosines, -k, axis=1)[:, -k]
        return 2 * scores - 2

"""The k-th largest cosine to a bank of unit vectors, two to three times faster than by the full product.

Nearly all the work of a search is spent on rows that are nowhere near the k nearest. So the bank is first
compared in coarse fixed point, two bank rows in one float32 number, which halves the product; only the rows
whose estimate comes within `MARGIN` of the k-th estimate are compared in full.

Guarantee: what comes back is the full cosine of a bank row, never an estimate, and at most the true k-th. It is
the true k-th unless rounding moved two estimates apart by more than `MARGIN`. A random rotation spreads every
vector over all coordinates, whatever the encoder, so an estimate is off by a standard deviation of 0.003 (0.009
in the worst pair) and `MARGIN` is eight of them; benchmarks/knn.py measures how often it is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Single: TypeAlias = NDArray[np.float32]

# A coordinate x becomes round(SCALE * x): cosines in units of 1 / SCALE**2 then fit 16 bits with room to spare.
SCALE = np.float32(160)
UPPER = np.float32(2**16)
LOWEST = np.iinfo(np.int16).min
MARGIN = np.int16(0.025 * SCALE**2)
# Estimates are summarised by the maximum of so many: a cheap lower bound of the k-th largest needs no sorting.
GROUP = 32
# The full product is as fast for a small bank, for a k that many groups share, and for a row with a large part
# of the bank (1 / CROWD) within the margin, as among duplicates.
SMALL = 2_000
CROWD = 16
# Rows searched or packed at once: bounds the temporary arrays to 50 MB with a bank of 50,000.
BLOCK = 128


def full_search(queries: Single, bank: Single, k: int) -> Single:
    """(m,) k-th largest cosine of (m, e) queries to the (n, e) bank, by the full product."""
    kth: Single = np.partition(queries @ bank.T, -k, axis=1)[:, -k]
    return kth


@dataclass(frozen=True)
class Nearest:
    """A bank (n, e) of unit float32 rows prepared for search; `packed` (e, h) holds rows 2j and 2j+1 in column j.

    Takes 1.5 times the bank's memory, and the time of one (n, e) by (e, e) product to build.
    """

    bank: Single
    rotation: Single
    packed: Single

    @classmethod
    def of(cls, bank: Single) -> Self:
        """The bank prepared for search. Deterministic. A small bank is not packed."""
        size = bank.shape[1]
        rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))[0].astype(np.float32)
        rows = len(bank) if len(bank) >= SMALL else 0
        packed = np.zeros((size, -(-rows // GROUP) * GROUP // 2), np.float32)
        for start in range(0, rows, 2 * BLOCK):
            codes = np.rint(bank[start : start + 2 * BLOCK] @ rotation * SCALE)
            column, pairs = start // 2, len(codes) // 2
            packed[:, column : column + len(codes) - pairs] = codes[::2].T
            packed[:, column : column + pairs] += codes[1::2].T * UPPER
        return cls(bank, rotation, packed)

    def kth_cosine(self, queries: Single, k: int) -> Single:
        """(m,) k-th largest cosine of each of the (m, e) unit queries to the bank, 1 <= k <= n."""
        quick = len(self.bank) >= max(SMALL, 2 * GROUP * k)
        kth = np.empty(len(queries), np.float32)
        for start in range(0, len(queries), BLOCK):
            block = queries[start : start + BLOCK]
            found = self._quick(block, k) if quick else full_search(block, self.bank, k)
            kth[start : start + BLOCK] = found
        return kth

    def _estimates(self, queries: Single) -> NDArray[np.int16]:
        """(m, 2h) estimated cosines in units of 1 / SCALE**2; the columns after the n-th are LOWEST."""
        codes = np.rint(queries @ self.rotation * SCALE)
        # Each product is upper * 2**16 + lower, and its two halves are the estimates of two rows. Float32 rounds
        # the lower one the more, the larger the sum grows: two short sums are twice as exact as a long one.
        half = len(self.packed) // 2
        sums: NDArray[np.int32] = (codes[:, :half] @ self.packed[:half]).astype("<i4")
        sums += (codes[:, half:] @ self.packed[half:]).astype("<i4")
        estimates: NDArray[np.int16] = sums.view("<i2")
        estimates[:, len(self.bank) :] = LOWEST
        return estimates

    def _quick(self, queries: Single, k: int) -> Single:
        estimates = self._estimates(queries)
        # Any k groups have k maxima in k different rows: the k-th largest maximum is at most the k-th estimate.
        maxima = estimates.reshape(len(queries), GROUP, -1).max(axis=1)
        near = estimates >= np.partition(maxima, -k, axis=1)[:, -k, None] - MARGIN
        crowded = np.count_nonzero(near, axis=1) > len(self.bank) // CROWD
        kth = np.empty(len(queries), np.float32)
        for row in np.flatnonzero(~crowded):
            cosines = self.bank[np.flatnonzero(near[row])] @ queries[row]
            kth[row] = np.partition(cosines, -k)[-k]
        if crowded.any():
            kth[crowded] = full_search(queries[crowded], self.bank, k)
        return kth

"""A pane: the smallest tumbling piece of event time of one slice, as a mergeable summary.

Every number in it is an integer count or a fixed-point sum, so merging is exact: associative, commutative, and
the panes of N replicas add up to the pane one replica would have built.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from detectors.calibration import OOD_P_VALUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from agent.sample import Sample

# Upper bounds of the p-value buckets; 0.05 is one of them, so the OOD ratio is read off exactly.
P_EDGES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DEPTH_EDGES = tuple(np.linspace(0.05, 2.0, 40).round(2).tolist())
# Sums are kept in units of 2^-32: integers add exactly in any order, floating point does not.
UNIT = 1 << 32


def units(values: NDArray[np.floating]) -> NDArray[np.int64]:
    """Values of ordinary size (below a thousand or so) as integer numbers of units, which add exactly."""
    counts: NDArray[np.int64] = np.rint(np.asarray(values, np.float64) * UNIT).astype(np.int64)
    return counts


def bucket_counts(
    values: NDArray[np.floating], edges: tuple[float, ...], group: NDArray[np.intp], groups: int
) -> NDArray[np.int64]:
    """(groups, rows, len(edges)) of (rows, n) values: how many of a row and group lie in each bucket.

    A bucket holds what is at or below its edge and above the one before; the last one also what lies above it.
    `group` (n,) says which group each column belongs to.
    """
    rows, width = len(values), len(edges)
    places = np.minimum(np.searchsorted(edges, values, side="left"), width - 1)
    places += width * (np.arange(rows)[:, np.newaxis] + rows * group)
    return np.bincount(places.ravel(), minlength=groups * rows * width).reshape(groups, rows, width)


@dataclass(frozen=True)
class Tally:
    """The counts of a pane, or of panes merged into a window.

    `classes` (C,) by predicted class, of items or, where tokens are labelled, of those; `p_counts` (detectors,
    buckets) and `p_sums` per detector, in the reference's order of detectors; `depth_counts` (buckets,); sums in
    units of 2^-32; `words` over the reference's vocabulary. `rank_sum` is the sum of depth ranks, whose mean is Q.
    """

    items: int
    truncated: int
    classes: NDArray[np.int64]
    p_counts: NDArray[np.int64]
    p_sums: NDArray[np.int64]
    depth_counts: NDArray[np.int64]
    depth_sum: int
    rank_sum: int
    confidence_sum: int
    words: NDArray[np.int64]

    def merge(self, other: Self) -> Self:
        """The tally of both sets of items together."""
        return type(self)(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    def ood_ratios(self, detectors: tuple[str, ...]) -> Mapping[str, float]:
        """Share of items with p <= 0.05, by detector; NaN without items."""
        flagged = self.p_counts[:, : P_EDGES.index(OOD_P_VALUE) + 1].sum(axis=1)
        return {name: self.mean(int(count) * UNIT) for name, count in zip(detectors, flagged, strict=True)}

    def mean(self, total: int) -> float:
        """A fixed-point sum as a mean over the items; NaN without items."""
        return total / UNIT / self.items if self.items else float("nan")


@dataclass(frozen=True)
class Pane:
    """One slice's records with start <= time < start + length."""

    slice: str
    start: int
    tally: Tally
    sample: Sample

    def merge(self, other: Self) -> Self:
        """Both parts of the same pane together; ValueError for different panes."""
        if (self.slice, self.start) != (other.slice, other.start):
            raise ValueError("only parts of the same pane can be merged")
        return replace(self, tally=self.tally.merge(other.tally), sample=self.sample.merge(other.sample))

"""Which items to label, and how many: a stratified draw with known inclusion probabilities.

Sample sizes follow from the Wilson (1927) interval, allocation and strata from Cochran (Sampling Techniques, 1977,
chapters 2 and 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from detectors.proportions import LEVEL, normal_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from detectors.contract import Vector

# More strata than this gain next to nothing (Cochran, 5A.8), and each needs two labels to show how it varies.
STRATA = 5
LEAST = 2


def labels_needed(accuracy: tuple[float, float], precision: float, level: float = LEVEL) -> int:
    """How many random labels give the accuracy an interval of half width `precision` (a fraction) at this level.

    `accuracy` are the bounds it is believed to lie between: it is planned for the worst value in there, the one
    nearest to a half; where they are NaN, for a half. The half width is that of the Wilson interval, so that an
    accuracy near 1 does not look as if no labels were needed. The labels are to speak for traffic like this
    window's, not for its items alone, so a small window does not need fewer.

    >>> [labels_needed(bounds, 0.03, 0.95) for bounds in ((0.4, 0.7), (0.8, 0.9), (1.0, 1.0))]
    [1064, 682, 61]
    """
    low, high = accuracy
    worst = min(max(low, 0.5), high) if isfinite(low) and isfinite(high) else 0.5
    spread, z = min(max(worst * (1 - worst), 0.0), 0.25), normal_width(level) ** 2
    # With x = z^2 / n the half width is w when (1/4 - w^2) x^2 + (spread - 2 w^2) x - w^2 = 0.
    a, b, c = 0.25 - precision**2, spread - 2 * precision**2, precision**2
    return max(1, ceil(z * 2 * a / (sqrt(b * b + 4 * a * c) - b) - 1e-9))


def allocate(sizes: Sequence[int], total: int, least: int = LEAST) -> list[int]:
    """How many of `total` to draw from strata of these sizes: in proportion, and at least `least` from each.

    Never more than a stratum holds; together `total`, or everything where that is less. Where `total` is too small
    for `least` from each, the larger strata get theirs first.

    >>> allocate([100, 100, 4], 20), allocate([3, 3], 100)
    ([9, 9, 2], [3, 3])
    """
    total = min(total, sum(sizes))
    given = [0] * len(sizes)
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        given[place] = min(least, sizes[place], total - sum(given))
    while sum(given) < total:
        # The next one goes where the share drawn falls furthest short of proportion (Webster's rule).
        open_ = [place for place, size in enumerate(sizes) if given[place] < size]
        given[max(open_, key=lambda place: sizes[place] / (2 * given[place] + 1))] += 1
    return given


@dataclass(frozen=True)
class Drawn:
    """n of N rows drawn without replacement, in random order: whoever stops half way has labelled a random part.

    (n,) `rows`, the stratum of each, the probability with which it was drawn, and whether it is one of the rows of
    lowest depth that are all taken. `strata` is (rows, drawn) of each stratum; where rows of lowest depth are
    taken, they are the first. Weighted by 1 / probability, what is summed over the drawn rows is unbiased for the
    sum over all N.
    """

    rows: NDArray[np.intp]
    stratum: NDArray[np.intp]
    probability: Vector
    lowest: NDArray[np.bool_]
    strata: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.rows)


def draw(depths: Vector, order: NDArray[np.uint64], total: int, lowest: int) -> Drawn:
    """Draw `total` of N rows: the `lowest` ones of least depth, which are all taken, and the rest over depth.

    `depths` (N,), `order` (N,) random numbers that decide who is drawn. At most half of the draw goes to the
    lowest: they are for looking at, and say little about the others. The rest is cut at its own quantiles of depth
    into strata of equal size, rather than at those of a source: far from the source all items would lie in one.
    """
    count = len(depths)
    total = max(0, min(total, count))
    sure = count if total == count and lowest >= count else min(max(lowest, 0), total // 2)
    # NaN, which nothing finite has, lies lowest. Ties are broken by the random numbers.
    ranked = np.lexsort((order, np.where(np.isnan(depths), -np.inf, depths)))
    pieces = ([ranked[:sure]] if sure else []) + _strata(ranked[sure:], total - sure)
    sizes = [len(piece) for piece in pieces]
    taken = [sure] if sure else []
    taken += allocate(sizes[len(taken) :], total - sure)
    chosen = [piece[np.argsort(order[piece], kind="stable")[:n]] for piece, n in zip(pieces, taken, strict=True)]
    rows = np.concatenate([*chosen, np.empty(0, np.intp)]).astype(np.intp)
    stratum = np.repeat(np.arange(len(chosen)), taken)
    shares = np.array([n / size for n, size in zip(taken, sizes, strict=True)])
    # Not by `order` itself: within a stratum it is low for those drawn, so small strata would come last.
    mixed = np.argsort(_scrambled(order[rows]), kind="stable")
    return Drawn(
        rows=rows[mixed],
        stratum=stratum[mixed],
        probability=shares[stratum][mixed] if len(rows) else np.empty(0),
        lowest=(np.arange(len(rows)) < sure)[mixed],
        strata=tuple(zip(sizes, taken, strict=True)),
    )


def _strata(ranked: NDArray[np.intp], drawn: int) -> list[NDArray[np.intp]]:
    """The rows, sorted by depth, in strata of about equal size, from each of which two can be drawn."""
    count = max(1, min(STRATA, drawn // LEAST))
    return [piece for piece in np.array_split(ranked, count) if len(piece)]


def _scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Other random numbers made from these (the finaliser of MurmurHash3)."""
    mixed = numbers.astype(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(factor)
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(33))
    return result

"""Depth F1: F1 in which an item counts the more, the less it resembles the source (Depth F1 paper).

Depths are D(x) = 1 + x . m of `detectors.depth`, the same formula for source and target; all arrays are (n,), one
entry for each target item, and finite. The reference depth D(s0) is the largest source depth, as the paper has
it. The published code takes the median instead and keeps the negative weights that this brings: `legacy=True`
reproduces that arithmetic, and the caller passes the median.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from detectors.contract import FitError, Vector
from detectors.depth import depth_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

# The paper's lambdas, in percent (its tables 2 and 3).
PERCENTILES = (0, 25, 50, 75, 90)


@dataclass(frozen=True)
class Weights:
    """(n,) weights summing to 1, higher for the dissimilar, and how many items were clipped to weight 0."""

    values: Vector
    clipped: int


@dataclass(frozen=True)
class Answers:
    """The true and the predicted class index, each (n,) in 0..classes-1. ValueError if they are not."""

    labels: NDArray[np.integer]
    predicted: NDArray[np.integer]
    classes: int

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.predicted):
            raise ValueError(f"{len(self.labels)} labels, but {len(self.predicted)} predictions")
        for indices in (self.labels, self.predicted):
            if len(indices) and not 0 <= indices.min() <= indices.max() < self.classes:
                raise ValueError(f"a class index is outside 0..{self.classes - 1}")

    @property
    def right(self) -> Vector:
        """(n,) 1 where the prediction is the label, else 0."""
        return np.asarray(self.labels == self.predicted, np.float64)

    def take(self, rows: NDArray[np.bool_]) -> Answers:
        """The chosen items."""
        return Answers(self.labels[rows], self.predicted[rows], self.classes)


@dataclass(frozen=True)
class DepthF1:
    """Micro and macro Depth F1 in [0, 1], higher is better, of `items` items, `clipped` of which have no weight.

    Both are NaN where no item is left. With one label for each item, micro F1 is accuracy: the paper's tables
    are this one.
    """

    micro: float
    macro: float
    items: int
    clipped: int


def depth_weights(depths: Vector, reference_depth: float, *, legacy: bool = False) -> Weights:
    """w_i = (D(s0) - D(t_i)) / sum (eq. 3), where items deeper than the reference are clipped to 0 and counted.

    `legacy` clips nothing, so that weights may be negative. FitError if the weights sum to 0.

    >>> depth_weights(np.array([0.5, 1.0, 1.5]), reference_depth=1.25)
    Weights(values=array([0.75, 0.25, 0.  ]), clipped=1)
    """
    differences = reference_depth - np.asarray(depths, np.float64)
    kept = differences if legacy else np.maximum(differences, 0)
    total = kept.sum()
    if total == 0:
        raise FitError("the depth weights sum to 0: the target lies no less deep than the reference")
    return Weights(kept / total, clipped=0 if legacy else int((differences < 0).sum()))


def dissimilar(depths: Vector, percentile: float) -> NDArray[np.bool_]:
    """(n,) which items' dissimilarity, 2 - depth, is strictly above its percentile (linear); 0 keeps all.

    This is what eq. 7 means: as printed, it would keep more as lambda grows. Ties at the percentile go together,
    so that no item may be left. ValueError if `percentile` is outside 0..100.
    """
    if not percentile or not len(depths):
        return np.ones(len(depths), np.bool_)
    # The sign alone gives the order of 2 - depth, and does not round.
    above: NDArray[np.bool_] = -depths > np.percentile(-depths, percentile)
    return above


def depth_weighted_quality(
    quality: Vector, depths: Vector, reference_depth: float, percentile: float = 0.0, *, legacy: bool = False
) -> float:
    """sum w q / sum w over the dissimilar items of any quality (n,) in [0, 1]; NaN where none is left.

    With q = [prediction is the label] this is micro Depth F1. FitError as `depth_weights`.
    """
    rows = dissimilar(depths, percentile)
    if not rows.any():
        return float("nan")
    return float(depth_weights(depths[rows], reference_depth, legacy=legacy).values @ quality[rows])


def depth_f1(
    answers: Answers, depths: Vector, reference_depth: float, percentile: float = 0.0, *, legacy: bool = False
) -> DepthF1:
    """Depth F1 (eq. 4 to 6) over the dissimilar items, weighted among themselves. FitError as `depth_weights`."""
    rows = dissimilar(depths, percentile)
    if not rows.any():
        return DepthF1(float("nan"), float("nan"), items=0, clipped=0)
    weights = depth_weights(depths[rows], reference_depth, legacy=legacy)
    return DepthF1(
        micro=depth_weighted_quality(answers.right, depths, reference_depth, percentile, legacy=legacy),
        macro=_macro(answers.take(rows), weights.values),
        items=int(rows.sum()),
        clipped=weights.clipped,
    )


def depth_f1_curve(
    answers: Answers,
    depths: Vector,
    reference_depth: float,
    percentiles: Iterable[float] = PERCENTILES,
    *,
    legacy: bool = False,
) -> dict[float, DepthF1]:
    """Depth F1 at each lambda: a model that falls along it works on what resembles the source only."""
    return {each: depth_f1(answers, depths, reference_depth, each, legacy=legacy) for each in percentiles}


def macro_f1(labels: NDArray[np.integer], predicted: NDArray[np.integer], classes: int) -> float:
    """F1 of each class, averaged over all `classes`, 0 for one that neither array names; NaN without items."""
    return _macro(Answers(labels, predicted, classes), np.ones(len(labels))) if len(labels) else float("nan")


def _macro(answers: Answers, weights: Vector) -> float:
    """Mean over classes of 2 DTP / (2 DTP + DFP + DFN), 0 where the denominator is."""
    counts = answers.labels, answers.predicted
    # DTP + DFN of each class, and DTP + DFP
    true, called = (np.bincount(indices, weights, answers.classes) for indices in counts)
    both = np.bincount(answers.labels, weights * answers.right, answers.classes)
    total = true + called
    return float(np.divide(2 * both, total, out=np.zeros(answers.classes), where=total != 0).mean())


def q_legacy(source_depths: Vector, target_depths: Vector) -> float:
    """Q as the published code computes it, for comparison with the paper's table 1; NaN where a side is empty.

    It ranks target items in the pooled set and divides by its size: (n_S P[X < Y] + (n_T - 1)/2) / (n_S + n_T),
    ties counted half. So it leans towards a half as the target grows; the unbiased Q is the mean of
    `detectors.depth.depth_ranks`. Lower = more dissimilar in both.
    """
    n, m = len(source_depths), len(target_depths)
    if not n or not m:
        return float("nan")
    below = float(depth_ranks(target_depths, np.sort(source_depths)).mean())
    return (n * below + (m - 1) / 2) / (n + m)

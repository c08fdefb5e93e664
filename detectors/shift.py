"""How far a window lies from the source, without a label of the window (to-annotate-or-not paper).

Each metric is one number that grows with the shift. Alone it is no accuracy; a regression of the accuracy drop on
it, over labelled reference domains, predicts one. Rows must be finite and in random order: the folds, halves and
first rows taken below are samples only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from detectors.least_squares import Moments, accuracy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Matrix, Vector

# A domain classifier's outputs lie around -1 and 1. Nearer to zero than this they are rounding, not a decision.
UNDECIDED = 1e-9
# Ridge of the heads below, in units of the features' mean square. With much less a head fits the noise where it
# has about as many rows as features: between two review domains (384 features, 200 rows a side) 0.001 gives a PAD
# of 0.52 where a logistic regression gives 0.87 and this gives 0.84; with 1,000 rows a side all three agree.
RIDGE = 0.3
NAN = float("nan")


def pad(source: Matrix, target: Matrix, folds: int = 5) -> float:
    """Proxy A-distance 2 acc - 1, acc a linear source-or-target classifier's cross-validated accuracy (eq. 3).

    `source` (n, d) and `target` (m, d) are embeddings for PAD, the task model's features for PAD*. The classifier
    is a least-squares head on -1 and 1; balanced: the first min(n, m) rows of each side, row i in fold i mod
    `folds`. Outputs within `UNDECIDED` of zero count as half right.

    1 where a hyperplane separates the samples, about 0 where nothing does, below 0 by sampling noise. Not changed
    by moving, scaling or swapping both sides. NaN with fewer than 2 `folds` rows a side.
    """
    rows = min(len(source), len(target))
    if rows < 2 * folds:
        return NAN
    both = np.stack([source[:rows], target[:rows]]).astype(np.float64)
    both -= both.mean(axis=(0, 1))  # a common offset tells nobody apart, and would inflate the ridge
    parts = [both[:, fold::folds] for fold in range(folds)]
    sums = [Moments.of(part.reshape(-1, both.shape[2]), _sides(part)) for part in parts]
    whole = sum(sums[1:], start=sums[0])
    right = 0.0
    for part, held_out in zip(parts, sums, strict=True):
        head = (whole - held_out).head(RIDGE)
        right += _right(head.logits(part.reshape(-1, both.shape[2])) * _sides(part))
    return right / rows - 1


def _sides(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2 r, 1) sides of (2, r, d) rows: -1 for the source, 1 for the target."""
    return np.repeat([-1.0, 1.0], part.shape[1])[:, np.newaxis]


def _right(agreement: NDArray[np.float64]) -> float:
    """How many outputs times sides are positive, those about zero counted half."""
    return float((agreement > UNDECIDED).sum() + (agreement >= -UNDECIDED).sum()) / 2


@dataclass(frozen=True)
class ReverseShift:
    """RCA and RCA*, each in [-1, 1] and higher the worse the window's pseudo-labels teach the source's task."""

    rca: float
    rca_star: float


@dataclass(frozen=True)
class ReverseClassifier:
    """The source's side of RCA and RCA* (eqs. 8 and 9), computed once and held against any number of targets.

    All three classifiers are judged on the same odd rows of the held-out sample: C, the task model; C', a
    least-squares head trained on the first `rows` of its even rows; C^, the same head trained on a target. Both
    heads learn C's predictions, never labels. RCA = acc(C) - acc(C^) and RCA* = acc(C') - acc(C^), so for one
    source they differ by `model_accuracy - head_accuracy`, whatever the target.
    """

    features: Matrix
    labels: NDArray[np.integer]
    classes: int
    rows: int
    model_accuracy: float
    head_accuracy: float

    @classmethod
    def fit(
        cls,
        features: Matrix,
        labels: NDArray[np.integer],
        predictions: NDArray[np.integer],
        classes: int,
        rows: int | None = None,
    ) -> Self:
        """From (m, d) features of a held-out source sample, its labels (m,) and C's predictions (m,) in 0..C-1.

        `rows` is how many rows both heads may learn from, by default half of the sample. A head taught by fewer
        is worse for that alone: set it to the smallest window expected. The metrics are NaN with m < 2, and
        RCA* also where all predictions that C' would learn are of one class.
        """
        rows = len(features[::2][:rows])
        judged, truth = features[1::2], labels[1::2]
        return cls(
            features=judged,
            labels=truth,
            classes=classes,
            rows=rows,
            model_accuracy=_share(predictions[1::2] == truth),
            head_accuracy=_taught(features[::2][:rows], predictions[::2][:rows], judged, truth, classes),
        )

    def against(self, features: Matrix, predictions: NDArray[np.integer]) -> ReverseShift:
        """RCA and RCA* of a target's (n, d) features and C's predictions (n,) on it, from its first `rows` rows.

        A target of fewer rows is used whole, and looks further away for it. NaN where those predictions are of
        one class only, or there are none: they teach nothing.
        """
        chosen = slice(self.rows)
        learnt = _taught(features[chosen], predictions[chosen], self.features, self.labels, self.classes)
        return ReverseShift(rca=self.model_accuracy - learnt, rca_star=self.head_accuracy - learnt)


def _taught(
    features: Matrix,
    predictions: NDArray[np.integer],
    judged: Matrix,
    truth: NDArray[np.integer],
    classes: int,
) -> float:
    """Accuracy on the judged rows of a head taught by predictions; NaN if these are not of two classes."""
    if not len(predictions) or (predictions == predictions[0]).all():
        return NAN
    return accuracy(Moments.of_labels(features, predictions, classes).head(RIDGE), judged, truth)


def confidence_drop(source_confidence: Vector, target_confidence: Vector) -> float:
    """CONF = mean source confidence (n,) - mean target confidence (m,), in [-1, 1] (eq. 4).

    Confidence is the largest softmax probability; after temperature scaling this is CONF_CALIB (eq. 7). Positive
    where the model is less sure of the target. NaN if either is empty.
    """
    if not len(source_confidence) or not len(target_confidence):
        return NAN
    return float(np.mean(source_confidence) - np.mean(target_confidence))


def class_shift(source_counts: NDArray[np.integer], target_counts: NDArray[np.integer]) -> float:
    """Total variation distance in [0, 1] of two (C,) counts of predicted classes. NaN where either has none.

    >>> class_shift(np.array([3, 1]), np.array([2, 2]))
    0.25
    """
    source, target = source_counts.sum(), target_counts.sum()
    if not source or not target:
        return NAN
    return float(np.abs(source_counts / source - target_counts / target).sum() / 2)


def _share(right: NDArray[np.bool_]) -> float:
    """Share of true entries; NaN without any."""
    return float(right.mean()) if len(right) else NAN

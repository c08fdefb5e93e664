"""Accuracy of a target from the model's outputs alone: no labels of it, no reference domains.

What a specialist compares with. All but `mano` give an accuracy in [0, 1] that can be used as it is; like any
metric they can also be regressed on. None sees a shift that leaves the outputs as they were: a model that is wrong
and sure of it looks well. No value depends on the order of the rows; each is NaN without rows. Where probabilities
are asked for, calibrate first: softmax(z / T) with T from `detectors.calibration.fit_temperature`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from detectors.contract import FitError
from detectors.softmax import entropy, free_energy, probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Matrix, Vector

Certainty = Literal["ne", "mc"]
# MaNo takes the softmax where the logits are further from uniform than this, in nats (the paper's eta).
MANO_THRESHOLD = 5.0
NAN = float("nan")


def cbpe(confidence: Vector) -> float:
    """Expected accuracy: the mean (n,) calibrated probability of the predicted class.

    NannyML's confidence-based performance estimation, for accuracy. Unbiased where the target is calibrated too.
    """
    return _mean(confidence)


def doc(source_accuracy: float, source_confidence: Vector, target_confidence: Vector) -> float:
    """Source accuracy minus the difference of confidences, mean source (n,) - mean target (m,), cut to [0, 1].

    Guillory et al. 2021 regress the drop on that difference; taking it for the drop is a slope of 1. NaN if either
    is empty.
    """
    return float(np.clip(source_accuracy - (_mean(source_confidence) - _mean(target_confidence)), 0.0, 1.0))


def certainty(logits: Matrix, kind: Certainty = "ne") -> Vector:
    """(n,) scores for `AverageThreshold` of (n, C) logits; higher is more certain.

    "ne" is the negative entropy in nats, which the paper recommends; "mc" the largest probability. With two
    classes they rank alike.
    """
    if kind == "ne":
        return -entropy(logits)
    largest: Vector = probabilities(logits).max(axis=1)
    return largest


@dataclass(frozen=True)
class AverageThreshold:
    """Average thresholded confidence (ATC, Garg et al. 2022): the share of target items certain enough.

    Eq. 1: the threshold t has P_source[score < t] = source error, and the estimate is P_target[score >= t]. Where
    several source items score exactly t, no cut meets this; so items at t count `credit` in [0, 1], which does.
    """

    threshold: float
    credit: float

    @classmethod
    def fit(cls, scores: Vector, right: NDArray[np.bool_]) -> Self:
        """From held-out source items: their (n,) scores and whether the model is right. FitError without rows."""
        if not len(scores):
            raise FitError("no labelled rows to fit a confidence threshold on")
        hits = int(right.sum())
        threshold = float(np.sort(scores)[len(scores) - max(hits, 1)])
        above, at = (scores > threshold).sum(), (scores == threshold).sum()
        return cls(threshold, float((hits - above) / at))

    def accuracy(self, scores: Vector) -> float:
        """Estimated accuracy of a target with these (n,) scores; of the source itself, exactly its accuracy."""
        return _mean((scores > self.threshold) + self.credit * (scores == self.threshold))


def cot(probability: Matrix, source_counts: NDArray[np.integer]) -> float:
    """Confidence optimal transport, 1 - W(target outputs, source labels) (Lu et al. 2023, COT).

    `probability` (n, C) is the calibrated softmax of the target, `source_counts` (C,) the labels of the source.
    Carrying an output p to the one-hot label k costs max|p - e_k| = sum|p - e_k| / 2 = 1 - p_k, so this is the
    largest mean p_k of any assignment that gives each class its share of the source labels. At most `cbpe`, and
    lower the further predicted classes are from the source's. The authors' code also subtracts mean confidence
    minus accuracy on the source, which calibration makes zero.

    Exact for two classes. For more, shares are rounded to whole items by largest remainder, which changes it by at
    most C / (4 n), nothing if n of the labels are n; (n, n) numbers are held, so sample large targets (n = 2,000:
    about a second). NaN without labels.
    """
    rows = len(probability)
    total = source_counts.sum()
    if not rows or not total:
        return NAN
    if len(source_counts) == 2:  # noqa: PLR2004 - the closed form
        return _two_classes(np.asarray(probability, np.float64), float(rows * source_counts[1] / total))
    # Imported here: the agent starts without it, and scipy.optimize would cost every start its time.
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    label = np.repeat(np.arange(len(source_counts)), _apportioned(source_counts, rows))
    gain = np.asarray(probability, np.float64)[:, label]
    item, place = linear_sum_assignment(gain, maximize=True)
    return _mean(gain[item, place])


def _two_classes(probability: NDArray[np.float64], second: float) -> float:
    """The best mean p_k with `second` items in class 1, the last of them in part: those that gain most by it."""
    gains = np.sort(probability[:, 1] - probability[:, 0])[::-1]
    whole = int(second)
    moved = gains[:whole].sum() + (second - whole) * gains[whole : whole + 1].sum()
    return float((probability[:, 0].sum() + moved) / len(probability))


def _apportioned(counts: NDArray[np.integer], seats: int) -> NDArray[np.intp]:
    """(C,) whole numbers that sum to `seats`, in proportion to (C,) counts by largest remainder."""
    whole, remainder = np.divmod(counts.astype(np.int64) * seats, counts.sum())
    order = np.argsort(-remainder, kind="stable")
    whole[order[: seats - whole.sum()]] += 1
    return whole.astype(np.intp)


def mano(logits: Matrix, p: float = 4, threshold: float = MANO_THRESHOLD) -> float:
    """MaNo (Xie et al. 2024): the L_p norm of the normalised (n, C) logits. A score in [0, 1], not an accuracy.

    Higher = more accurate, by its authors' regressions: regress on it. The score is (sum Q^p / (n C))^(1/p), with
    Q_ik = v(z_ik) / sum_j v(z_ij), v = exp where Phi > `threshold` and v(z) = 1 + z + z^2 / 2 elsewhere; Phi =
    -mean log softmax(z) over rows and classes, high where the logits are far from uniform. Phi > 0 always, so
    `threshold` = 0 is the softmax throughout.

    Traps. Compare scores of one branch only. The truncated form sees a constant added to a row, and is not
    monotone: a row (-z, z) counts as less sure again beyond z = sqrt 2. Few two-class models have Phi > 5; give
    those `threshold` = 0. The authors' code subtracts each row's least v, which the paper does not (v >= 1/2
    needs none) and which makes the score of any two-class model a constant; we follow the paper.
    """
    values = np.asarray(logits, np.float64)
    if not len(values):
        return NAN
    spread = float(np.mean(free_energy(values)[:, np.newaxis] - values))
    if spread > threshold:
        share = probabilities(values)
    else:
        weight = 1 + values + values**2 / 2
        share = weight / weight.sum(axis=1, keepdims=True)
    return float(np.mean(share**p) ** (1 / p))


def _mean(values: Vector) -> float:
    """Mean of (n,) numbers as a float; NaN without any."""
    return float(np.mean(values)) if len(values) else NAN

"""What the report of an evaluation draws and lists: histograms, reliability, classes, the strangest items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agent.evaluation_report import (
    Calibration,
    CalibrationBin,
    ClassScores,
    Densities,
    DetectorScores,
    DissimilarItem,
)
from detectors.calibration import OOD_P_VALUE
from detectors.reliability import expected_calibration_error, reliability_bins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agent.labelled import Labelled
    from agent.reference import Reference
    from agent.scorer import Scored
    from detectors.contract import Vector

HISTOGRAM_BINS = 40
# The outermost half percent on each side, in which one wild score could hide all the others, share a bin.
TAIL = 0.005
SHOWN_ITEMS = 10
SHOWN_LETTERS = 200


def calibrations(reference: Reference, scored: Scored, quality: Vector) -> tuple[Calibration, ...]:
    """Reliability of the confidence as the model gives it, and after the source's temperature."""
    return tuple(
        _calibration(name, confidence, quality, 1 / len(reference.labels))
        for name, confidence in (("raw", scored.raw_confidence), ("calibrated", scored.confidence))
    )


def _calibration(name: str, confidence: Vector, quality: Vector, lowest: float) -> Calibration:
    bins = reliability_bins(confidence, quality, lowest)
    kept = tuple(CalibrationBin(each.items, each.confidence, each.accuracy) for each in bins)
    return Calibration(name, expected_calibration_error(bins), kept)


def densities(source: Vector, target: Vector) -> Densities:
    """Both histograms over 40 bins that hold all but the wildest of both sides; neither may be empty."""
    ends = [np.quantile(side, [TAIL, 1 - TAIL]) for side in (source, target)]
    low, high = (float(pick(bounds)) for pick, bounds in zip((min, max), np.transpose(ends), strict=True))
    margin = (high - low) * 0.02 or max(abs(low), 1.0) * 1e-3  # all values may be one
    edges = np.linspace(low - margin, high + margin, HISTOGRAM_BINS + 1)
    shares = [np.histogram(np.clip(side, edges[0], edges[-1]), edges)[0] / len(side) for side in (source, target)]
    return Densities(tuple(edges.tolist()), *(tuple(share.tolist()) for share in shares))


def detector_scores(reference: Reference, scored: Scored) -> tuple[DetectorScores, ...]:
    """Every detector's scores of these items beside those of the validation rows, the primary one first."""
    found = [
        DetectorScores(
            name=name,
            primary=name == reference.primary,
            ood_ratio=float((scored.p[name] <= OOD_P_VALUE).mean()),
            threshold=ood_threshold(fitted.validation_scores),
            densities=densities(fitted.validation_scores, scored.scores[name]),
        )
        for name, fitted in reference.detectors.items()
    ]
    return tuple(sorted(found, key=lambda each: not each.primary))


def ood_threshold(validation_scores: Vector) -> float:
    """Items with a score below this are called out of distribution, p <= 0.05; NaN where none can be.

    `validation_scores` (m,) are sorted upwards. With fewer than 19 of them no p-value is that small.

    >>> ood_threshold(np.arange(39.0))
    1.0
    """
    place = int(OOD_P_VALUE * (len(validation_scores) + 1) - 1 + 1e-9)  # how many may lie at or below the item
    return float(validation_scores[place]) if len(validation_scores) >= 1 / OOD_P_VALUE - 1 else float("nan")


def class_scores(
    names: Sequence[str], labels: NDArray[np.intp], predicted: NDArray[np.intp]
) -> tuple[ClassScores, ...]:
    """One row a class; NaN recall of a class without items, NaN precision of one never predicted."""
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, (labels, predicted), 1)
    return tuple(_class(names, counts, place) for place in range(len(names)))


def _class(names: Sequence[str], counts: NDArray[np.int64], place: int) -> ClassScores:
    right, true, called = (
        int(part) for part in (counts[place, place], counts[place].sum(), counts[:, place].sum())
    )
    wrong = counts[place].copy()
    wrong[place] = 0
    nan = float("nan")
    return ClassScores(
        label=names[place],
        items=true,
        predicted=called,
        recall=right / true if true else nan,
        precision=right / called if called else nan,
        f1=2 * right / (true + called) if true + called else nan,
        confused_with=names[int(wrong.argmax())] if wrong.any() else "",
    )


def dissimilar_items(
    reference: Reference, labelled: Labelled, ids: Sequence[str], scored: Scored, quality: Vector
) -> tuple[DissimilarItem, ...]:
    """The ten items of least depth, the least first."""
    depth = scored.scores["depth"]
    return tuple(
        DissimilarItem(
            id=ids[row],
            text=_shown(labelled, row),
            label=_answer(reference, scored, labelled.labels, row),
            prediction=_answer(reference, scored, scored.predicted, row),
            confidence=float(scored.confidence[row]),
            depth=float(depth[row]),
            quality=float(quality[row]),
        )
        for row in np.argsort(depth, kind="stable")[:SHOWN_ITEMS].tolist()
    )


def _shown(labelled: Labelled, row: int) -> str:
    """The text, and the second one of a pair after a bar, on one line and cut."""
    pair = labelled.items.pairs[row] if labelled.items.pairs else None
    whole = labelled.items.texts[row] + (f" | {pair}" if pair else "")
    text = " ".join(whole[: 4 * SHOWN_LETTERS].split())
    return text if len(text) <= SHOWN_LETTERS else f"{text[: SHOWN_LETTERS - 1].rstrip()}…"


def _answer(reference: Reference, scored: Scored, classes: NDArray[np.intp], row: int) -> str:
    """The name of the item's class; of a sequence labeller those of its first tokens."""
    start, end = (int(place) for place in scored.tokens.starts[row : row + 2])
    names = " ".join(reference.labels[place] for place in classes[start : min(end, start + SHOWN_TOKENS)])
    return f"{names} …" if end - start > SHOWN_TOKENS else names


SHOWN_TOKENS = 12

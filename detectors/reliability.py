"""Whether a confidence means what it says: accuracy beside confidence, bin by bin (Guo et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from detectors.contract import Vector

BINS = 12


@dataclass(frozen=True)
class ReliabilityBin:
    """The `items` (at least one) whose confidence is in (low, high]: their mean confidence and mean quality."""

    low: float
    high: float
    items: int
    confidence: float
    accuracy: float


def reliability_bins(
    confidence: Vector, quality: Vector, lowest: float = 0.0, bins: int = BINS
) -> list[ReliabilityBin]:
    """Bins of equal width from `lowest` to 1, without those that no item falls into.

    `confidence` and `quality` are (n,) in [0, 1]; no confidence should be below `lowest`, 1/C of C classes, but
    one that is counts in the first bin.
    """
    edges = np.linspace(lowest, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    items = np.bincount(place, minlength=bins)
    sums = [np.bincount(place, values, bins) for values in (confidence, quality)]
    return [
        ReliabilityBin(
            low=float(edges[each]),
            high=float(edges[each + 1]),
            items=int(items[each]),
            confidence=float(sums[0][each] / items[each]),
            accuracy=float(sums[1][each] / items[each]),
        )
        for each in np.flatnonzero(items)
    ]


def expected_calibration_error(bins: list[ReliabilityBin]) -> float:
    """ECE: the mean over items of their bin's |confidence - accuracy|, in [0, 1]; NaN of no items."""
    items = sum(each.items for each in bins)
    gaps = sum(each.items * abs(each.confidence - each.accuracy) for each in bins)
    return gaps / items if items else float("nan")

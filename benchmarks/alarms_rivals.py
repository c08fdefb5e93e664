"""What others would run on the same streams: ADWIN and KSWIN on p-values, and a fixed threshold on the OOD ratio.

All of them read the primary detector's p-value of every item of a slice, and an alarm of theirs is a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from alarms_streams import SHORT
from river.drift import ADWIN, KSWIN

from detectors.calibration import OOD_P_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from alarms_streams import Traffic
    from numpy.typing import NDArray
    from river.base import DriftDetector

    # By model, and by slice.
    Streams = Mapping[str, Sequence[NDArray[np.float64]]]

ADWIN_USUAL, ADWIN_TUNED = "ADWIN, default", "ADWIN, tuned"
KSWIN_USUAL, KSWIN_TUNED = "KSWIN, default", "KSWIN, tuned"
FIXED_USUAL, FIXED_TUNED = "OOD ratio > 10 %", "OOD ratio, tuned"
FIXED_OWN = "OOD ratio, tuned for each model"
# Each ten times stricter than the one before; the first is river's default.
DELTAS = (2e-3, 2e-4, 2e-5, 2e-6, 2e-7, 2e-8, 2e-9, 2e-10, 2e-12, 2e-15)
# Twice the ratio that the source itself has.
USUAL_THRESHOLD = 2 * OOD_P_VALUE
THRESHOLDS = tuple(np.arange(0.06, 1.0, 0.01).round(2).tolist())
KSWIN_ITEMS = 1_000  # before and after a change: more than it remembers with either of the windows below


class Alarm(NamedTuple):
    """What one rival did after a change: the items until its first alarm, NaN for none, and how many alarms."""

    delay: float
    alarms: int


def adwin(delta: float) -> DriftDetector:
    """River's ADWIN, everything else by default."""
    return ADWIN(delta=delta)


def kswin() -> DriftDetector:
    """River's KSWIN by default."""
    return KSWIN(seed=0)


def strict_kswin(alpha: float) -> DriftDetector:
    """KSWIN with longer windows, and an alpha that its tests in a month reach less than once in all streams."""
    return KSWIN(alpha=alpha, window_size=400, stat_size=100, seed=0)


def alarms(detector: DriftDetector, values: NDArray[np.float64], most: int | None = None) -> list[int]:
    """After which items it says that the stream has changed, the first `most` of them."""
    found: list[int] = []
    for place, value in enumerate(values.tolist()):
        detector.update(value)
        if detector.drift_detected:
            found.append(place + 1)
            if most is not None and len(found) >= most:
                break
    return found


def hourly_ratio(traffic: Traffic, detector: int) -> NDArray[np.float64]:
    """(panes,) the share of items with p <= 0.05 in the hour that ends with each pane."""
    flagged = traffic.p(detector) <= OOD_P_VALUE
    sums = np.concatenate([[0], np.cumsum(flagged)])[traffic.starts]
    first = np.maximum(np.arange(len(traffic)) + 1 - SHORT, 0)
    items = traffic.starts[1:] - traffic.starts[first]
    found: NDArray[np.float64] = (sums[1:] - sums[first]) / np.maximum(items, 1)
    found[: SHORT - 1] = 0.0
    return found


def begun(above: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Where it begins to hold."""
    return np.flatnonzero(above & ~np.concatenate([[False], above[:-1]]))


@dataclass(frozen=True)
class Tuned:
    """Settings that raised at most `budget` alarms on a month of stationary traffic that is not measured on."""

    delta: float
    threshold: float
    own_threshold: Mapping[str, float]
    alpha: float


def tuned(streams: Streams, ratios: Streams, budget: float) -> Tuned:
    """From p-values by model and slice, and their hourly ratios. The least strict that keeps the budget."""
    values = [each for slices in streams.values() for each in slices]
    items = sum(map(len, values))
    everyone = [each for slices in ratios.values() for each in slices]
    return Tuned(
        delta=first_within(DELTAS, budget, lambda delta: sum(len(alarms(adwin(delta), each)) for each in values)),
        threshold=least_threshold(everyone, budget),
        own_threshold={name: least_threshold(slices, 0.0) for name, slices in ratios.items()},
        alpha=budget / items,
    )


def least_threshold(ratios: Iterable[NDArray[np.float64]], budget: float) -> float:
    """The lowest of THRESHOLDS that the hourly ratios begin to exceed at most `budget` times."""
    found = list(ratios)
    return first_within(THRESHOLDS, budget, lambda each: sum(len(begun(ratio > each)) for ratio in found))


def first_within(settings: Sequence[float], budget: float, count: Callable[[float], int]) -> float:
    """The first of these settings, ever stricter, with at most `budget` alarms; else the last."""
    return next((each for each in settings if count(each) <= budget), settings[-1])

"""How far an estimate may be off: from its errors on domains it had not seen, and from the size of the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from detectors.contract import FitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detectors.contract import Vector

LEVEL = 0.9
# How many standard deviations of sampling an interval at LEVEL spans to each side.
DEVIATIONS = 1.6449


@dataclass(frozen=True)
class AccuracyEstimate:
    """An accuracy and the bounds it lies between at LEVEL; fractions in [0, 1]."""

    accuracy: float
    low: float
    high: float


def around(
    accuracy: float, error: float, items: int, usual: float, ends: tuple[float, ...] = ()
) -> AccuracyEstimate:
    """The interval around an accuracy estimated on so many items.

    `error` is the half width for a new domain of `usual` items. A window of fewer items strays further, by its
    sampling; and what else the accuracy may be, `ends`, widens the side on which it lies. NaN if the accuracy is.
    """
    extra = sampling_variance(accuracy, items) - sampling_variance(accuracy, usual)
    spread = error**2 + DEVIATIONS**2 * max(extra, 0.0)
    low = accuracy - np.sqrt(spread + (accuracy - min((accuracy, *ends))) ** 2)
    high = accuracy + np.sqrt(spread + (max((accuracy, *ends)) - accuracy) ** 2)
    return AccuracyEstimate(*(float(min(max(value, 0.0), 1.0)) for value in (accuracy, low, high)))


def half_width(errors: Sequence[Vector], level: float = LEVEL) -> float:
    """Half the width of an interval that holds the truth on a new domain at this level.

    `errors` holds one vector of left-out errors a domain. Errors on one domain go together, so it is the
    number of domains that says how well their size is known: their quantile is widened by Student's t with as many
    degrees of freedom. The quantile of N errors strays itself: sqrt(1 + 1/N).
    Every error counts alike, so a domain with more of them counts more. FitError without errors.
    """
    # Imported here: only a fit needs it, and it would cost the agent 70 MB.
    from scipy.stats import norm, t  # noqa: PLC0415 - see above

    known = [np.abs(part) for part in errors if len(part)]
    if not known:
        raise FitError("no domain was left out, so nothing says how far an estimate may be off")
    domains, upper = len(known), (1 + level) / 2
    sizes = np.concatenate(known)
    widening = float(t.ppf(upper, domains) / norm.ppf(upper) * np.sqrt(1 + 1 / len(sizes)))
    return float(np.quantile(sizes, level)) * widening


def sampling_variance(accuracy: float, items: float) -> float:
    """The variance of a share of right items among so many, at least one: p (1 - p) / n, but never zero."""
    inside = min(max(accuracy, 0.0), 1.0)
    # Even where every item seems right, one more item may be wrong.
    return max(inside * (1 - inside), 1 / (items + 1)) / items


@dataclass(frozen=True)
class Home:
    """What is known of the source itself: its `accuracy` on `rows` held-out rows.

    `correction` is what must be added to an estimate that takes those very rows for a new domain.
    """

    accuracy: float
    rows: int
    correction: float

    def mixed(self, found: AccuracyEstimate, novelty: float, items: int) -> AccuracyEstimate:
        """The estimate of a window of which only the share `novelty` in [0, 1] is not the source itself.

        `found` takes all of it for new. A part that nothing tells from the source is as far off as the source was,
        so the correction holds for it, and what is left there is the sampling of both.
        """
        known = 1 - novelty
        accuracy = found.accuracy + known * self.correction
        sampling = sampling_variance(self.accuracy, self.rows) + sampling_variance(accuracy, items)
        rest = known * DEVIATIONS**2 * sampling
        low = accuracy - np.sqrt((novelty * (found.accuracy - found.low)) ** 2 + rest)
        high = accuracy + np.sqrt((novelty * (found.high - found.accuracy)) ** 2 + rest)
        return AccuracyEstimate(*(float(min(max(value, 0.0), 1.0)) for value in (accuracy, low, high)))

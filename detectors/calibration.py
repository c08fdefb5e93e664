"""From scores to p-values, and from logits to calibrated confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from detectors.contract import FitError, Vector
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Matrix

# An item is called out of distribution at this p-value: the ood-benchmark paper's operating point, TPR 95 %.
OOD_P_VALUE = 0.05
INVERSE_TEMPERATURES = (1 / 100, 20.0)
_BISECTIONS = 60


def p_values(scores: Vector, validation_scores: Vector) -> Vector:
    """(n,) p(s) = (1 + #{v <= s}) / (m + 1) in (0, 1]; `validation_scores` (m,) must be sorted upwards.

    Uniform, or above it where scores tie, as long as the items come from the source.

    >>> p_values(np.array([-1.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0]))
    array([0.25, 0.75, 1.  ])
    """
    rank = np.searchsorted(validation_scores, scores, side="right")
    return np.asarray((1 + rank) / (len(validation_scores) + 1), np.float64)


@dataclass(frozen=True)
class Temperature:
    """The T that makes softmax(z / T) calibrated; `bounded` if the search stopped at a bound instead."""

    value: float
    bounded: bool


def fit_temperature(logits: Matrix, labels: NDArray[np.integer]) -> Temperature:
    """T = 1/beta minimising the negative log-likelihood of (n,) class indices, by bisection on beta.

    The likelihood is convex in beta, with derivative mean(E_p[z] - z_y). FitError without rows.
    """
    values = np.asarray(logits, np.float64)
    if not len(values):
        raise FitError("no labelled rows to fit a temperature on")
    truth = values[np.arange(len(values)), labels]

    def slope(beta: float) -> float:
        expected = (probabilities(values, 1 / beta) * values).sum(axis=1)
        return float((expected - truth).mean())

    low, high = INVERSE_TEMPERATURES
    if slope(low) >= 0:
        return Temperature(1 / low, bounded=True)
    if slope(high) <= 0:
        return Temperature(1 / high, bounded=True)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return Temperature(2 / (low + high), bounded=False)

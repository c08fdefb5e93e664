"""From a shift metric to a drop: one regression a source, over its labelled reference domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from detectors.contract import FitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Vector

# Strengths for the ensemble to choose from by leave-one-out error, in units of a standardised metric's rows; the
# strongest first, for where errors are equal.
STRENGTHS = np.geomspace(100.0, 0.01, 25)
# A metric that differs less than this, relative to its size or to 1, is constant but for rounding.
_CONSTANT = 1e-9
# Directions in which the metrics vary less than this share of the most are rounding: one is a sum of the others.
_SAME = 1e-12


@dataclass(frozen=True)
class Regression:
    """drop = intercept + slopes . (metrics - centre) over K domains; the mean drop where metrics say nothing.

    `residuals` (K,) are leave-one-out: how far each drop lies above what the other domains predict for it.
    """

    intercept: float
    slopes: Vector
    centre: Vector
    residuals: Vector

    @classmethod
    def mean(cls, drops: Vector) -> Self:
        """The Mean baseline: the average drop, whatever the metrics. FitError without domains."""
        return cls.least_squares(np.empty((len(drops), 0)), drops)

    @classmethod
    def line(cls, metric: Vector, drops: Vector) -> Self:
        """Ordinary least squares of (K,) drops on one (K,) metric: the per-source regression of the paper.

        A constant metric gives slope 0, so the Mean. FitError without domains.
        """
        return cls.least_squares(metric[:, np.newaxis], drops)

    @classmethod
    def ensemble(cls, metrics: NDArray[np.float64], drops: Vector) -> Self:
        """Ridge on all (K, m) metrics, standardised, its strength chosen by leave-one-out error.

        Regularised, because there are rarely more domains than metrics. FitError without domains.
        """
        spread = metrics.std(axis=0) if len(metrics) else np.ones(metrics.shape[1])
        scale = np.where(spread > 0, spread, 1.0)
        tried = [
            cls.least_squares(metrics / scale, drops, strength * max(len(drops), 1)) for strength in STRENGTHS
        ]
        best = min(tried, key=lambda found: float(np.abs(found.residuals).mean()))
        return cls(best.intercept, best.slopes / scale, best.centre * scale, best.residuals)

    @classmethod
    def least_squares(cls, metrics: NDArray[np.float64], drops: Vector, ridge: float = 0.0) -> Self:
        """Least squares of (K,) drops on finite (K, m) metrics, a ridge on the slopes, the intercept left free.

        Without a ridge, metrics that say the same share the slope. The residual of a domain left out is
        e / (1 - h), h its leverage: nothing is fitted again. NaN where h is 1: with one domain, or a metric that
        only one domain moves. FitError without domains.
        """
        if not len(drops):
            raise FitError("no reference domains to regress the drop on")
        centre = metrics.mean(axis=0)
        centred = metrics - centre
        centred[:, np.abs(centred).max(axis=0) <= _CONSTANT * (1 + np.abs(centre))] = 0.0
        gram = centred.T @ centred + ridge * np.eye(metrics.shape[1])
        solved = np.linalg.pinv(gram, rcond=_SAME) @ centred.T
        intercept = float(drops.mean())
        slopes = solved @ (drops - intercept)
        leverage = 1 / len(drops) + (centred * solved.T).sum(axis=1)
        left = 1 - leverage
        errors = drops - intercept - centred @ slopes
        residuals = np.where(left > _CONSTANT, errors / np.where(left > _CONSTANT, left, 1.0), np.nan)
        return cls(intercept, np.asarray(slopes, np.float64), np.asarray(centre, np.float64), residuals)

    def predict(self, metrics: Vector) -> float:
        """The drop at (m,) metrics."""
        return float(self.intercept + self.slopes @ (metrics - self.centre))

    @property
    def mae(self) -> float:
        """Mean absolute leave-one-out error; NaN where it cannot be had."""
        return float(np.abs(self.residuals).mean())

    @property
    def worst(self) -> float:
        """Largest absolute leave-one-out error."""
        return float(np.abs(self.residuals).max())

"""The drop estimate: agreement with the panel, turned into accuracy by what both were on domains left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from detectors.contract import FitError
from detectors.intervals import LEVEL, AccuracyEstimate, around, half_width
from detectors.panel_fit import PanelFit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from detectors.contract import Matrix, Vector
    from detectors.panel import LabelledDomain, Panel
    from detectors.panel_fit import Seen

# With fewer labelled domains, the source among them, none can be left out of a panel that itself leaves one out.
LEAST_DOMAINS = 3
# Pulls the slope towards 1, which it is for a calibrated panel; as much as that much spread of agreement.
SLOPE_RIDGE = 0.05


@dataclass(frozen=True)
class AccuracyLine:
    """accuracy = level + slope (agreement - centre), a level and a centre for each model, one slope for all."""

    level: Vector
    centre: Vector
    slope: float

    @classmethod
    def fit(cls, agreements: NDArray[np.float64], accuracies: NDArray[np.float64]) -> Self:
        """Least squares over (M, K) models and domains with an effect for each model; NaN where one is missing."""
        known = ~(np.isnan(agreements) | np.isnan(accuracies))
        counts = np.maximum(known.sum(axis=1), 1)
        level = np.where(known, accuracies, 0.0).sum(axis=1) / counts
        centre = np.where(known, agreements, 0.0).sum(axis=1) / counts
        across = np.where(known, agreements - centre[:, np.newaxis], 0.0)
        up = np.where(known, accuracies - level[:, np.newaxis], 0.0)
        slope = (float((across * up).sum()) + SLOPE_RIDGE) / (float(np.square(across).sum()) + SLOPE_RIDGE)
        nothing = ~known.any(axis=1)
        return cls(np.where(nothing, np.nan, level), np.where(nothing, np.nan, centre), slope)

    def accuracy(self, agreements: Vector) -> Vector:
        """(M,) accuracy of each model at its agreement."""
        return np.asarray(self.level + self.slope * (agreements - self.centre), np.float64)


@dataclass(frozen=True)
class DropEstimator:
    """Estimates one model's accuracy on unlabelled items.

    `level`, `centre` and `slope` are the model's line; `error` is half the width of the interval for a new domain
    about as large as the reference domains, `items` how many items those had.
    """

    panel: Panel
    level: float
    centre: float
    slope: float
    error: float
    items: float

    def estimate(self, embedding: Matrix, predicted: NDArray[np.integer]) -> AccuracyEstimate:
        """The accuracy on (n, e) embeddings whose predicted classes (n,) are.

        The bounds cover the error on a new domain, the sampling of a window smaller than those domains, and that a
        tilt of the panel is read wrongly, to the side where that would move the estimate.
        """
        return self.between(self.panel.posteriors(embedding).agreements(predicted), len(predicted))

    def between(self, agreements: tuple[float, float, float], items: int) -> AccuracyEstimate:
        """The accuracy at the agreements that Posteriors gives for this many items."""
        believed, *ends = (self.level + self.slope * (agreement - self.centre) for agreement in agreements)
        return around(believed, self.error, items, self.items, tuple(ends))


@dataclass(frozen=True)
class LeftOut:
    """What was estimated for a model on a labelled domain while that was left out, beside its accuracy there."""

    accuracy: float
    estimate: AccuracyEstimate


class DropFit:
    """Fits the estimators of M models on K labelled domains, and says how they do on domains left out.

    `outside` holds each model's predicted classes by domain: None where it has none, as for the domain it was
    trained on. `on_progress` is told how many of the K + 1 panels are done. FitError below LEAST_DOMAINS.
    """

    def __init__(
        self,
        domains: Sequence[LabelledDomain],
        outside: Sequence[Sequence[NDArray[np.integer] | None]],
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        if len(domains) < LEAST_DOMAINS:
            raise FitError(
                f"{len(domains) - 1} reference domains are too few, at least {LEAST_DOMAINS - 1} are needed"
            )
        fit = PanelFit(domains, outside)
        self._models = len(outside)
        self._sizes = np.array([len(domain) for domain in domains])
        self._accuracies = fit.accuracies
        self._all = fit.without(None)
        on_progress(1)
        self._each = []
        for place in range(len(domains)):
            self._each.append(fit.without(place))
            on_progress(place + 2)
        self._errors = [self._own_errors(place) for place in range(len(domains))]

    @property
    def errors(self) -> list[Vector]:
        """For each domain, the errors (accuracy - estimate) of the panel's own models while it was left out."""
        return self._errors

    def coverage(self) -> tuple[float, int]:
        """How often a domain's errors lay within the interval that the other domains give, and of how many errors.

        Each domain counts alike. Only as sure as K domains can make it.
        """
        inside = []
        for place, errors in enumerate(self._errors):
            others = [part for other, part in enumerate(self._errors) if other != place]
            inside.append(float((np.abs(errors) <= half_width(others, LEVEL)).mean()))
        return float(np.mean(inside)), sum(map(len, self._errors))

    def estimator(self, model: int) -> DropEstimator:
        """The estimator of one of the outside models."""
        return self._estimator(model, self._all, None)

    def left_out(self, model: int) -> list[LeftOut | None]:
        """For each domain, what a model's estimator says that never saw it; None where the model has no part."""
        return [self._left_out(model, place) for place in range(len(self._each))]

    def _left_out(self, model: int, place: int) -> LeftOut | None:
        truth, target = self._accuracies[model, place], self._each[place].target
        if target is None or np.isnan(truth):
            return None
        believed, unchanged, changed = map(float, target[:, model])
        estimator = self._estimator(model, self._each[place], place)
        return LeftOut(float(truth), estimator.between((believed, unchanged, changed), int(self._sizes[place])))

    def _estimator(self, model: int, seen: Seen, left_out: int | None) -> DropEstimator:
        line = self._line(seen, model)
        known = [place for place in range(len(self._sizes)) if place != left_out]
        return DropEstimator(
            panel=seen.panel,
            level=float(line.level[0]),
            centre=float(line.centre[0]),
            slope=line.slope,
            error=half_width([self._errors[place] for place in known], LEVEL),
            items=float(np.median(self._sizes[known])),
        )

    def _line(self, seen: Seen, model: int | None) -> AccuracyLine:
        """The line over the panel's own models, and before them the outside model asked for."""
        own = list(range(self._models, len(self._accuracies)))
        rows = own if model is None else [model, *own]
        accuracies = np.where(np.isnan(seen.agreements), np.nan, self._accuracies)
        return AccuracyLine.fit(seen.agreements[rows], accuracies[rows])

    def _own_errors(self, place: int) -> Vector:
        seen = self._each[place]
        if seen.target is None:
            return np.empty(0)
        line = self._line(seen, None)
        errors = self._accuracies[self._models :, place] - line.accuracy(seen.target[0, self._models :])
        return np.asarray(errors[~np.isnan(errors)], np.float64)

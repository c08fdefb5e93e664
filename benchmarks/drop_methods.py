"""The contenders of the drop benchmark, and how their errors are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from drop_study import OTHERS, PAPER

from detectors.drop import DropFit
from detectors.intervals import LEVEL, half_width
from detectors.regression import Regression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from drop_study import Model, Part, Study
    from numpy.typing import NDArray

    from detectors.contract import Vector
    from detectors.drop import DropEstimator

OURS, MEAN, ENSEMBLE = "Agreement (ours)", "Mean", "Ensemble"
LABELS: Mapping[str, str] = {
    "pad": "PAD",
    "pad_star": "PAD*",
    "conf": "CONF",
    "conf_calib": "CONF_CALIB",
    "rca": "RCA",
    "rca_star": "RCA*",
    "js": "JS of words",
    "class_shift": "class shift",
    "atc": "ATC",
    "doc": "DoC",
    "cbpe": "CBPE",
    "cot": "COT",
    "mano": "MaNo",
}
# Those whose authors take them for the drop itself.
DIRECT = ("atc", "doc", "cbpe", "cot")


class Answer(NamedTuple):
    """An estimated drop and the bounds of its interval, NaN where a method gives none."""

    drop: float
    low: float = float("nan")
    high: float = float("nan")


class Row(NamedTuple):
    """One estimate beside the truth, in one case of an experiment."""

    case: str
    method: str
    source: int
    realised: float
    answer: Answer


def direct(label: str) -> str:
    """How a method is called that uses a metric as the drop."""
    return f"{label}, used directly"


@dataclass(frozen=True)
class Lines:
    """Every regression of one source over its labelled reference domains."""

    fits: Mapping[str, tuple[tuple[str, ...], Regression, float]]

    @classmethod
    def over(cls, study: Study, source: int, references: Sequence[int]) -> Self:
        """Mean, a line for each metric, and the ensemble of the paper's metrics."""
        drops = study.drops[source, list(references)]
        shown = [study.metrics[source][place] for place in references]
        table = {name: np.array([metrics[name] for metrics in shown]) for name in PAPER + OTHERS}
        together = np.stack([table[name] for name in PAPER], axis=1)
        fits = {MEAN: ((), Regression.mean(drops)), ENSEMBLE: (PAPER, Regression.ensemble(together, drops))}
        fits |= {LABELS[name]: ((name,), Regression.line(table[name], drops)) for name in table}
        return cls({name: (read, fit, width(fit)) for name, (read, fit) in fits.items()})

    def answers(self, metrics: Mapping[str, float]) -> dict[str, Answer]:
        """What each regression whose metrics are known says, and the drops that some metrics are themselves."""
        found = {direct(LABELS[name]): Answer(metrics[name]) for name in DIRECT}
        for name, (read, fit, half) in self.fits.items():
            if all(metric in metrics for metric in read):
                drop = fit.predict(np.array([metrics[metric] for metric in read]))
                found[name] = Answer(drop, drop - half, drop + half)
        return found


def width(fit: Regression) -> float:
    """Half the width of a regression's interval, from its left-out residuals as ours is from its own."""
    residuals = fit.residuals[np.isfinite(fit.residuals)]
    return half_width(list(residuals[:, np.newaxis])) if len(residuals) else float("nan")


@dataclass(frozen=True)
class Panel:
    """Ours, fitted on some domains: an estimator for the model of each."""

    estimators: Mapping[int, DropEstimator]

    @classmethod
    def over(cls, study: Study, members: Sequence[int], domains: Sequence[Part] | None = None) -> Self:
        """Fitted on the members' rows, or on those of `domains` instead; it knows nothing of any other domain."""
        parts = [(study.domains if domains is None else domains)[place] for place in members]
        outside = [predictions(study.models[source], source, members, parts) for source in members]
        fit = DropFit([part.labelled for part in parts], outside)
        return cls({source: fit.estimator(model) for model, source in enumerate(members)})

    def answers(self, models: Sequence[Model], window: Part) -> dict[int, Answer]:
        """By source; the window is the same for all of them, so the panel looks at it once."""
        posteriors = next(iter(self.estimators.values())).panel.posteriors(window.embedding)
        found = {}
        for source, estimator in self.estimators.items():
            model = models[source]
            estimate = estimator.between(posteriors.agreements(model.predicted(window)), len(window))
            bounds = (estimate.accuracy, estimate.high, estimate.low)
            found[source] = Answer(*(model.accuracy - value for value in bounds))
        return found


def predictions(
    model: Model, source: int, members: Sequence[int], parts: Sequence[Part]
) -> list[NDArray[np.intp] | None]:
    """A model's predicted classes on each member's rows, none on those of its own domain."""
    return [None if place == source else model.predicted(part) for place, part in zip(members, parts, strict=True)]


@dataclass(frozen=True)
class Tally:
    """The errors of one method in one case; fractions."""

    by_source: Vector
    errors: NDArray[np.float64]
    coverage: float
    half: float

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        """Errors by source; the coverage and the median half width of the intervals, NaN without them."""
        errors = np.array([abs(row.answer.drop - row.realised) for row in rows])
        source = np.array([row.source for row in rows])
        bounds = np.array([row.answer[1:] for row in rows])
        held = [row.answer.low <= row.realised <= row.answer.high for row in rows]
        known = bool(np.isfinite(bounds).all())
        return cls(
            by_source=np.array([errors[source == one].mean() for one in np.unique(source)]),
            errors=errors,
            coverage=float(np.mean(held)) if known else float("nan"),
            half=float(np.median(bounds[:, 1] - bounds[:, 0]) / 2) if known else float("nan"),
        )

    @property
    def mae(self) -> float:
        """Mean absolute error, every source counted alike."""
        return float(self.by_source.mean())


def tallies(rows: Iterable[Row]) -> dict[tuple[str, str], Tally]:
    """By case and method, in the order in which they came up."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.case, row.method), []).append(row)
    return {key: Tally.of(each) for key, each in found.items()}


def points(value: float, digits: int = 2) -> str:
    """A fraction in percentage points; a dash where there is none."""
    return "-" if np.isnan(value) else f"{100 * value:.{digits}f}"


def percent(value: float, digits: int = 0) -> str:
    """A share; a dash where there is none."""
    return "-" if np.isnan(value) else f"{100 * value:.{digits}f} %"


LEVEL_TEXT = f"{100 * LEVEL:.0f} %"

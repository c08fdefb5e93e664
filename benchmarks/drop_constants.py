"""Whether the constants of our method were fitted to the targets: choose them again for each, without it."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from drop_methods import predictions
from drop_windows import class_windows
from workbench import say

from detectors import label_prior, panel
from detectors.drop import AccuracyLine
from detectors.panel_fit import PanelFit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from drop_study import Study
    from numpy.typing import NDArray

    from detectors.panel_fit import Seen

CHANGED = (0.03, 0.1, 0.3)
NEARNESS = (0.0, 4.0, 8.0)


class Constants(NamedTuple):
    """The two constants that decide most."""

    changed: float
    nearness: float


SHIPPED = Constants(label_prior.CHANGED, panel.NEARNESS)


class Errors(NamedTuple):
    """(K, K) absolute errors by source and target, NaN on the diagonal: on whole domains, on changed classes."""

    whole: NDArray[np.float64]
    changed: NDArray[np.float64]


@contextmanager
def using(constants: Constants) -> Iterator[None]:
    """The method with other constants, for a while."""
    label_prior.CHANGED, panel.NEARNESS = constants
    try:
        yield
    finally:
        label_prior.CHANGED, panel.NEARNESS = SHIPPED


def grid(study: Study) -> dict[Constants, Errors]:
    """The errors with every choice of the constants."""
    found = {}
    for choice in map(Constants._make, product(CHANGED, NEARNESS)):
        say(f"constants {choice.changed:g} and {choice.nearness:g}")
        with using(choice):
            found[choice] = errors(study)
    return found


def errors(study: Study) -> Errors:
    """Each target left out of the panel and of the line, by the shortcut of a backtest: one fit for all."""
    places = range(len(study))
    outside = [predictions(model, source, places, study.domains) for source, model in enumerate(study.models)]
    fit = PanelFit([part.labelled for part in study.domains], outside)
    whole, changed = np.full((2, len(study), len(study)), np.nan)
    for target in range(len(study)):
        seen = fit.without(target)
        windows = list(class_windows(study, target).values())
        posteriors = [seen.panel.posteriors(window.embedding) for window in windows]
        for source in study.others(target):
            line = line_of(fit, seen, source, len(study))
            believed = [float(seen.target[0, source])] if seen.target is not None else []
            right = [float(fit.accuracies[source, target])]
            for window, posterior in zip(windows, posteriors, strict=True):
                predicted = study.models[source].predicted(window)
                believed.append(posterior.agreements(predicted)[0])
                right.append(float((predicted == window.labels).mean()))
            estimated = line.level[0] + line.slope * (np.array(believed) - line.centre[0])
            each = np.abs(estimated - np.array(right))
            whole[source, target], changed[source, target] = each[0], each[1:].mean()
    return Errors(whole, changed)


def line_of(fit: PanelFit, seen: Seen, source: int, models: int) -> AccuracyLine:
    """One model's line without the target: over that model and the panel's own."""
    rows = [source, *range(models, len(fit.predictions))]
    known = np.where(np.isnan(seen.agreements), np.nan, fit.accuracies)
    return AccuracyLine.fit(seen.agreements[rows], known[rows])


def nested(
    found: Mapping[Constants, Errors], cost: Callable[[Errors], float]
) -> tuple[Errors, dict[Constants, int]]:
    """For each target the errors of the constants that cost least on all others, and how often each was chosen.

    A target's own model has no say in it either.
    """
    size = len(next(iter(found.values())).whole)
    whole, changed = np.full((2, size, size), np.nan)
    chosen: dict[Constants, int] = {}
    for target in range(size):
        kept = np.delete(np.arange(size), target)
        others = {choice: Errors(*(part[np.ix_(kept, kept)] for part in each)) for choice, each in found.items()}
        best = min(others, key=lambda choice, seen=others: cost(seen[choice]))
        chosen[best] = chosen.get(best, 0) + 1
        whole[:, target], changed[:, target] = found[best].whole[:, target], found[best].changed[:, target]
    return Errors(whole, changed), chosen


def on_whole(errors: Errors) -> float:
    """What constants cost by their errors on whole domains."""
    return float(np.nanmean(errors.whole))


def on_both(errors: Errors) -> float:
    """What constants cost if windows with other class ratios count as much as whole domains."""
    return float(np.nanmean(errors.whole) + np.nanmean(errors.changed)) / 2

"""The label-free estimate of a window: its shift metrics, every method's drop, and one drop with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from agent.interval import Interval
from agent.methods import AGREEMENT, ENSEMBLE, methods_of
from agent.observed import drawn, of_rows, of_sample, of_source
from agent.report import DropEstimate
from detectors.calibration import OOD_P_VALUE
from detectors.comparison import Comparison
from detectors.divergence import js_divergence
from detectors.intervals import LEVEL, Home, around
from detectors.panel import mean_direction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from agent.panes import Tally
    from agent.reference import Domain, Reference
    from agent.sample import Sample
    from agent.scorer import Scored
    from detectors.comparison import Observed
    from detectors.contract import Vector
    from detectors.intervals import AccuracyEstimate

# Fewer items than this say nothing about accuracy, nor do fewer different ones.
LEAST_ITEMS = 30
LEAST_DIFFERENT = 20
# What must lie within what the source itself and its domains showed, that range widened by a share of itself. The
# value is the source's own.
INSIDE = {"pad": 0.0, "conf_calib": 0.0, "js": 0.0, "q": 0.5}
WIDENING = 0.25
# At the least by what the sampling of fifty items moves a metric: domains may happen to be much alike in one.
LEAST_MARGIN = 0.05
# The cosine of the mean embedding with that of the nearest labelled domain. In other languages it is about zero,
# where the metrics above have long reached their ends.
NEAREST = "nearest"
# Nearer to a right angle than this, texts have nothing in common with any labelled domain.
LEAST_COSINE = 0.1
NOVELTY = "novelty"
# What is this near to being as far away as the nearest reference domain is new altogether: few items show less of
# a distance than the domains did. And a domain nearer than LEAST_NEW is the source again.
NEW, LEAST_NEW = 0.8, 0.1


def comparison_of(reference: Reference) -> Comparison:
    """The held-out source sample that every domain and window is compared with."""
    sample, temperature = reference.source.sample, reference.temperature.value
    source = of_source(sample, temperature)
    labels = sample.get("labels")
    if labels is None or source.predicted is None:
        return Comparison.fit(source, np.asarray(sample["quality"], np.float64), None, temperature)
    truth = np.asarray(labels, np.int64)
    return Comparison.fit(source, (source.predicted == truth).astype(np.float64), truth, temperature)


@dataclass(frozen=True)
class Counted:
    """What was counted of all items, sampled or not: how many, and the metrics js, q and ood_<detector>."""

    items: int
    metrics: Mapping[str, float]

    @classmethod
    def of_tally(cls, reference: Reference, tally: Tally) -> Self:
        """What a window's panes counted."""
        ratios = tally.ood_ratios(tuple(reference.detectors))
        return cls(tally.items, _metrics(reference, tally.mean(tally.rank_sum), tally.words, ratios))

    @classmethod
    def of_items(cls, reference: Reference, p: Mapping[str, Vector], ranks: Vector, texts: Sequence[str]) -> Self:
        """What n items come to: (n,) p-values by detector, (n,) depth ranks, and their texts."""
        ratios = {name: _mean(values <= OOD_P_VALUE) for name, values in p.items()}
        words = reference.source.vocabulary.count(texts)
        return cls(len(texts), _metrics(reference, _mean(ranks), words, ratios))


def _mean(values: NDArray[np.floating] | NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _metrics(
    reference: Reference, q: float, words: NDArray[np.int64], ratios: Mapping[str, float]
) -> dict[str, float]:
    return {
        "js": js_divergence(reference.source.words, words),
        "q": q,
        **{f"ood_{name}": ratio for name, ratio in ratios.items()},
    }


class Estimator:
    """Makes the estimates against one reference. Pure: the same items give the same estimate."""

    def __init__(self, reference: Reference, least: int = LEAST_ITEMS) -> None:
        """Estimates need at least `least` items, of which a sample may show fewer."""
        self._least = max(least, LEAST_ITEMS)
        self._reference = reference
        self._accuracy = reference.source.accuracy["test"]
        self._comparison = comparison_of(reference)
        self._methods = methods_of(reference.domains, reference.home)
        nearest = min((domain.shift["pad"] for domain in reference.domains), default=1.0)
        self._new = max(NEW * nearest, LEAST_NEW)
        self._ranges = ranges_of(reference.domains)
        if reference.estimator is not None:
            self._ranges[NEAREST] = nearest_range(reference.estimator.panel.means)
        self._home = self._known()

    def estimate(self, observed: Observed, counted: Counted) -> DropEstimate:
        """The drop on the items that `observed` is a sample of, or the reason why none can be given."""
        reason = too_little(observed) or too_few(counted.items, self._least)
        if reason:
            return refused(reason, counted)
        metrics = self._comparison.metrics(observed) | dict(counted.metrics)
        reason = self._reference.trust.refusal or self._one_class(observed)
        if reason:
            return refused(reason, counted, metrics)
        drops = {name: (method.metric(metrics), method.drop(metrics)) for name, method in self._methods.items()}
        accuracy = self._accuracy_of(observed, metrics, drops)
        # What is not known of a window, such as the words of texts that have none, is outside as well.
        outside = tuple(name for name, (low, high) in self._ranges.items() if not low <= metrics[name] <= high)
        return DropEstimate(
            n=counted.items,
            level=LEVEL,
            reason="",
            drop=Interval(*(self._accuracy - value for value in (accuracy.accuracy, accuracy.high, accuracy.low))),
            accuracy=Interval(accuracy.accuracy, accuracy.low, accuracy.high),
            methods=drops,
            metrics=metrics,
            inside_domains=not outside,
            outside=outside,
        )

    def _accuracy_of(
        self, observed: Observed, metrics: dict[str, float], drops: dict[str, tuple[float, float]]
    ) -> AccuracyEstimate:
        """The accuracy: by what is known of the source as far as the window is like it, else as a new domain."""
        metrics[NOVELTY] = self._novelty(metrics["pad"])
        new, agreement = self._as_new(observed, metrics)
        found = self._home.mixed(new, metrics[NOVELTY], len(observed))
        estimator = self._reference.estimator
        if estimator is not None:
            metrics[NEAREST] = float((estimator.panel.means @ mean_direction(observed.embedding)).max())
            metrics[AGREEMENT] = agreement
            drops[AGREEMENT] = agreement, self._accuracy - found.accuracy
        return found

    def _as_new(self, observed: Observed, metrics: Mapping[str, float]) -> tuple[AccuracyEstimate, float]:
        """The accuracy of a new domain: by agreement with the panel, or the ensemble where texts have no class."""
        estimator, predicted = self._reference.estimator, observed.predicted
        if estimator is None or predicted is None:
            trust, drop = self._reference.trust, self._methods[ENSEMBLE].drop(metrics)
            return around(self._accuracy - drop, trust.error, len(observed), trust.items), float("nan")
        agreements = estimator.panel.posteriors(observed.embedding).agreements(predicted)
        return estimator.between(agreements, len(observed)), agreements[0]

    def _known(self) -> Home:
        """How far off the estimate is that takes the source's own held-out rows for a new domain."""
        source = self._comparison.source
        rows = len(source)
        if self._reference.trust.refusal:
            return Home(self._accuracy, rows, 0.0)
        taken, _ = self._as_new(source, self._reference.home)
        return Home(self._accuracy, rows, self._comparison.accuracy - taken.accuracy)

    def of_window(self, tally: Tally, sample: Sample) -> DropEstimate:
        """The drop in a window of merged panes."""
        observed = of_sample(sample, self._reference.temperature.value)
        return self.estimate(observed, Counted.of_tally(self._reference, tally))

    def of_scored(self, scored: Scored, texts: Sequence[str]) -> DropEstimate:
        """The drop on the scored rows of a table; those on which the models gave NaN or infinity are left out."""
        rows = np.flatnonzero(scored.finite)
        kept = scored.take(rows.tolist())
        chosen = drawn(len(rows))
        observed = of_rows(kept.outputs.take(chosen), kept.confidences[chosen])
        counted = Counted.of_items(self._reference, kept.p, kept.ranks, [texts[row] for row in rows.tolist()])
        return self.estimate(observed, counted)

    def _novelty(self, pad: float) -> float:
        """How much of a window is not the source itself, in [0, 1].

        Some of a window from the source and the rest from elsewhere, the PAD is in proportion to the rest. What is
        as far away as any reference domain counts as new altogether: how far off one is then, they have shown.
        """
        return float(np.clip(pad / self._new, 0.0, 1.0))

    def _one_class(self, observed: Observed) -> str:
        predicted = observed.predicted
        if predicted is None or (predicted != predicted[0]).any():
            return ""
        name = self._reference.labels[int(predicted[0])]
        return f"the model predicts {name!r} for every item, so nothing tells right from wrong predictions"


def too_few(items: int, least: int) -> str:
    """Why so many items say nothing where `least` are needed; empty where they are enough."""
    return "" if items >= least else f"{items} items are too few, at least {least} are needed"


def too_little(observed: Observed) -> str:
    """Why these items say nothing, whatever the reference; empty where they say something."""
    if not len(observed):
        return "there are no items"
    lost = int((~observed.finite).sum())
    if lost:
        return f"of {lost} of {len(observed)} items the models gave NaN or infinity"
    few = too_few(len(observed), LEAST_ITEMS)
    if few:
        return few
    different = len(np.unique(observed.embedding, axis=0))
    if different < LEAST_DIFFERENT:
        return f"only {different} of {len(observed)} items are different, at least {LEAST_DIFFERENT} are needed"
    return ""


def refused(reason: str, counted: Counted, metrics: Mapping[str, float] | None = None) -> DropEstimate:
    """No estimate, and why."""
    return DropEstimate(counted.items, LEVEL, reason, metrics=counted.metrics if metrics is None else metrics)


def ranges_of(domains: Sequence[Domain]) -> dict[str, tuple[float, float]]:
    """How far each of the metrics INSIDE may go before a window is outside what was fitted."""
    if not domains:
        return {}
    ranges = {}
    for name, own in INSIDE.items():
        known = [domain.shift[name] for domain in domains if np.isfinite(domain.shift[name])]
        if not known:
            continue
        values = [own, *known]
        margin = max(WIDENING * (max(values) - min(values)), LEAST_MARGIN)
        ranges[name] = (min(values) - margin, max(values) + margin)
    return ranges


def nearest_range(means: NDArray[np.float64]) -> tuple[float, float]:
    """How near the nearest of K labelled domains must be, with (K, e) unit means: as near as each has another."""
    cosines = means @ means.T
    np.fill_diagonal(cosines, -1.0)
    least = float(cosines.max(axis=1).min())
    return max(least - WIDENING * (1 - least), LEAST_COSINE), float("inf")

"""Fitting a panel, and every panel that leaves a domain out: how a panel does on domains it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from detectors.contract import FitError
from detectors.label_prior import Tilts, centred_log, restated
from detectors.least_squares import Moments
from detectors.panel import (
    LONE_ROWS,
    LONE_STRENGTH,
    Panel,
    evidence_of,
    levelled,
    mean_direction,
    nearness,
    pooled_head,
)
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from detectors.contract import Vector
    from detectors.panel import LabelledDomain, Posteriors

# Temperatures to choose from, by the likelihood of labels in left-out domains.
TEMPERATURES = np.geomspace(0.02, 2.0, 60)
# Where few domains show how far heads tilt, this is believed as much as so many domains.
USUAL_BIAS, USUAL_BIAS_DOMAINS = 0.4, 20
# Domains count alike but for very small ones: as n / (n + this).
FEW_ROWS = 500


@dataclass(frozen=True)
class Seen:
    """What a panel without one domain knows, and its agreement with M models.

    `panel` over the domains in `members`; `agreements` (M, K) on those domains, each left out in turn (NaN where a
    model or domain has no part); `target` (3, M) on the domain this panel left out, as Posteriors.agreements gives
    them, None where it left none out.
    """

    panel: Panel
    agreements: NDArray[np.float64]
    target: NDArray[np.float64] | None


class PanelFit:
    """The leave-one-out and leave-two-out heads of K labelled domains. Deterministic.

    `outside` holds each model's predicted classes by domain (None where it has none). After them come K models of
    the panel's own, the heads of one domain alone: from them it learns how agreement and accuracy go together.
    FitError where a domain has no items.
    """

    def __init__(
        self, domains: Sequence[LabelledDomain], outside: Sequence[Sequence[NDArray[np.integer] | None]]
    ) -> None:
        self.domains = tuple(domains)
        if not all(map(len, self.domains)):
            raise FitError("a labelled domain has no items")
        scaled = [
            Moments.of_labels(part.embedding, part.labels, part.classes).scaled(1 / (len(part) + FEW_ROWS))
            for part in self.domains
        ]
        self._grams = np.stack([part.gram for part in scaled])
        self._crosses = np.stack([part.cross for part in scaled])
        self._means = np.stack([mean_direction(part.embedding) for part in self.domains])
        self._priors = np.stack([part.prior for part in self.domains])
        lone = [part.head(LONE_STRENGTH) for part in scaled]
        self._lone = [[head.logits(part.embedding) for part in self.domains] for head in lone]
        self._lone_losses = np.stack(
            [
                np.stack([losses(logits, part.labels) for logits, part in zip(row, self.domains, strict=True)])
                for row in self._lone
            ]
        )
        own: list[list[NDArray[np.integer] | None]] = [
            [None if a == o else logits.argmax(axis=1) for o, logits in enumerate(row)]
            for a, row in enumerate(self._lone)
        ]
        self.predictions = [*outside, *own]
        self._logits: dict[frozenset[int], dict[int, NDArray[np.float64]]] = {}

    @cached_property
    def accuracies(self) -> NDArray[np.float64]:
        """(M, K) share of each domain that each model gets right; NaN where it has no predictions."""
        return np.array(
            [
                [
                    np.nan if found is None else float((found == part.labels).mean())
                    for found, part in zip(row, self.domains, strict=True)
                ]
                for row in self.predictions
            ]
        )

    def without(self, left_out: int | None) -> Seen:
        """What the panel of all domains but one knows."""
        members = [place for place in range(len(self.domains)) if place != left_out]
        everywhere = {o: self._pooled_logits(o, left_out) for o in members}
        temperature = best_temperature(
            [losses(everywhere[o], self.domains[o].labels) for o in members],
        )
        lone_temperatures = np.array(
            [best_temperature([self._lone_losses[a, o] for o in members if o != a]) for a in members]
        )
        priors = {o: self._priors[[m for m in members if m != o]].mean(axis=0) for o in members}
        pooled = {o: self._pooled(o, left_out, temperature, priors[o]) for o in members}
        lone = {o: self._lone_posteriors(o, members, lone_temperatures, priors[o]) for o in members}
        tilts = self._tilts(members, {o: evidence_of(pooled[o], lone[o], priors[o]) for o in members}, priors)
        found = np.full((len(self.predictions), len(self.domains)), np.nan)
        for o in members:
            posteriors = levelled(pooled[o], lone[o], priors[o], tilts)
            found[:, o] = self._agreements(posteriors, o, left_out)[0]
        panel = Panel(
            self._grams[members].astype(np.float32),
            self._crosses[members].astype(np.float32),
            self._means[members],
            self._priors[members],
            temperature,
            lone_temperatures,
            tilts.bias,
            tilts.natural,
        )
        if left_out is None:
            return Seen(panel, found, None)
        prior = self._priors[members].mean(axis=0)
        posteriors = levelled(
            self._pooled(left_out, None, temperature, prior),
            self._lone_posteriors(left_out, members, lone_temperatures, prior),
            prior,
            tilts,
        )
        return Seen(panel, found, self._agreements(posteriors, left_out, None))

    def _agreements(self, posteriors: Posteriors, domain: int, left_out: int | None) -> NDArray[np.float64]:
        """(3, M) agreements of each model on this domain.

        NaN for models without predictions there, and for the panel's own model of the domain left out.
        """
        found = np.full((3, len(self.predictions)), np.nan)
        absent = None if left_out is None else len(self.predictions) - len(self.domains) + left_out
        for place, row in enumerate(self.predictions):
            predicted = row[domain]
            if predicted is not None and place != absent:
                found[:, place] = posteriors.agreements(predicted)
        return found

    def _pooled_logits(self, domain: int, left_out: int | None) -> NDArray[np.float64]:
        """(n, C) on the rows of a domain, of the head of all others but `left_out`."""
        absent = frozenset({domain} if left_out is None else {domain, left_out})
        if absent not in self._logits:
            self._logits[absent] = {o: self._head_logits(o, absent) for o in absent}
        return self._logits[absent][domain]

    def _head_logits(self, domain: int, absent: frozenset[int]) -> NDArray[np.float64]:
        head = pooled_head(self._grams, self._crosses, self._weights(domain, absent))
        return head.logits(self.domains[domain].embedding)

    def _weights(self, domain: int, absent: frozenset[int]) -> Vector:
        """(K,) how much each domain counts for this one; zero for those that are absent."""
        weights = nearness(self._means, self._means[domain])
        weights[list(absent)] = 0.0
        return weights

    def _pooled(self, domain: int, left_out: int | None, temperature: float, prior: Vector) -> NDArray[np.float64]:
        """(n, C) posteriors of the head of all others but `left_out`, as if it had learnt under `prior`."""
        weights = self._weights(domain, frozenset({domain} if left_out is None else {domain, left_out}))
        learnt = probabilities(self._pooled_logits(domain, left_out), temperature)
        return restated(learnt, weights @ self._priors / weights.sum(), prior)

    def _lone_posteriors(
        self, domain: int, members: Sequence[int], temperatures: Vector, prior: Vector
    ) -> list[NDArray[np.float64]]:
        return [
            restated(probabilities(self._lone[a][domain][:LONE_ROWS], temperature), self._priors[a], prior)
            for a, temperature in zip(members, temperatures, strict=True)
            if a != domain
        ]

    def _tilts(
        self, members: Sequence[int], evidence: Mapping[int, Vector], priors: Mapping[int, Vector]
    ) -> Tilts:
        """How far the evidence of a domain strays from the truth, and how far the truth itself does."""
        truth = {o: centred_log(self._priors[o]) - centred_log(priors[o]) for o in members}
        dimensions = self._priors.shape[1] - 1
        strays = [float(np.square(evidence[o] - truth[o]).sum()) / dimensions for o in members]
        seen = _typical(strays, dimensions)
        bias = (USUAL_BIAS_DOMAINS * USUAL_BIAS**2 + len(members) * seen) / (USUAL_BIAS_DOMAINS + len(members))
        natural = _typical([float(np.square(each).sum()) / dimensions for each in truth.values()], dimensions)
        return Tilts(float(np.sqrt(bias)), float(np.sqrt(natural)))


def _typical(squares: Sequence[float], dimensions: int) -> float:
    """The mean of squared normals in so many dimensions, from their median: a few that stray far must not decide.

    The median of a chi-square with one degree of freedom is 0.455, with d about d (1 - 2 / (9 d))^3 (Wilson and
    Hilferty).
    """
    return float(np.median(squares)) / (_MEDIAN if dimensions == 1 else (1 - 2 / (9 * dimensions)) ** 3)


_MEDIAN = 0.455


def losses(logits: NDArray[np.float64], labels: NDArray[np.integer]) -> Vector:
    """(T,) mean negative log-likelihood of the labels at each of TEMPERATURES."""
    truth = logits[np.arange(len(labels)), labels]
    top = logits.max(axis=1)
    below = logits - top[:, np.newaxis]
    return np.array(
        [float((np.log(np.exp(below / t).sum(axis=1)) + (top - truth) / t).mean()) for t in TEMPERATURES]
    )


def best_temperature(each: Sequence[Vector]) -> float:
    """The temperature with the least loss, every domain counted alike."""
    return float(TEMPERATURES[int(np.mean(each, axis=0).argmin())])

"""The panel: heads trained on labelled domains, asked about a model's predictions on unlabelled items.

The labels one already has in the reference domains know more about a window than the model's own confidence does.
A head pooled over those domains, near ones counted most, gives each item a posterior; the mean posterior of the
classes the model predicted is its *agreement* with the panel. With one more head for each domain alone, the panel
can also say whether a tilt of the pooled head is its own (the other heads do not share it) or that of the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from detectors.geometry import unit_rows
from detectors.label_prior import Tilts, agreed, centred_log, from_logs, likeliest_prior, matched, restated
from detectors.least_squares import Moments
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from detectors.contract import Head, Matrix, Vector

# How much more near domains count: the weight falls by e for each 1 / NEARNESS of cosine between mean embeddings.
NEARNESS = 4.0
# Enough rows to see a tilt; the heads of one domain are many.
LONE_ROWS = 500
LONE_STRENGTH = 0.5  # of a head that has one domain only to learn from


@dataclass(frozen=True)
class LabelledDomain:
    """n items of one domain, in random order: (n, e) embeddings and their classes (n,), out of `classes`."""

    embedding: Matrix
    labels: NDArray[np.integer]
    classes: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def prior(self) -> Vector:
        """(C,) share of each class, as if each had occurred once more: none is impossible elsewhere."""
        counts = np.bincount(self.labels, minlength=self.classes)
        return np.asarray((counts + 1) / (len(self) + self.classes), np.float64)


@dataclass(frozen=True)
class Posteriors:
    """(n, C) class probabilities: as `believed`, and at both ends of what may be.

    `unchanged` if the classes occur as in the domains and all of the tilt is the head's own, `changed` if all of
    it is the classes'.
    """

    believed: NDArray[np.float64]
    unchanged: NDArray[np.float64]
    changed: NDArray[np.float64]

    def agreements(self, predicted: NDArray[np.integer]) -> tuple[float, float, float]:
        """Mean probability of the (n,) predicted classes, in [0, 1]: believed, unchanged, changed. n >= 1."""
        rows = np.arange(len(predicted))
        found = (part[rows, predicted].mean() for part in (self.believed, self.unchanged, self.changed))
        believed, unchanged, changed = map(float, found)
        return believed, unchanged, changed


@dataclass(frozen=True)
class Panel:
    """What is kept of K labelled domains.

    `grams` (K, e+1, e+1) and `crosses` (K, e+1, C) are the moments of each, scaled to count alike; `means` (K, e)
    unit mean embeddings; `priors` (K, C) class shares; `temperature` that of the pooled head, `lone_temperatures`
    (K,) those of the heads of one domain; `bias` and `natural` as in Tilts. Moments may be in single precision.
    """

    grams: NDArray[np.floating]
    crosses: NDArray[np.floating]
    means: NDArray[np.float64]
    priors: NDArray[np.float64]
    temperature: float
    lone_temperatures: NDArray[np.float64]
    bias: float
    natural: float

    @cached_property
    def prior(self) -> Vector:
        """(C,) mean class shares of the domains."""
        return np.asarray(self.priors.mean(axis=0), np.float64)

    @cached_property
    def lone(self) -> tuple[Head, ...]:
        """The head of each domain alone."""
        moments = map(Moments, self.grams.astype(np.float64), self.crosses.astype(np.float64))
        return tuple(part.head(LONE_STRENGTH) for part in moments)

    def posteriors(self, embedding: Matrix) -> Posteriors:
        """What the panel believes of each of n >= 1 items, which it takes for one domain: all count for each.

        Rows are taken as they come, but the heads of one domain see the first LONE_ROWS only: with more than that,
        give them in random order.
        """
        weights = nearness(self.means, mean_direction(embedding))
        head = pooled_head(self.grams, self.crosses, weights)
        learnt = probabilities(head.logits(embedding), self.temperature)
        pooled = restated(learnt, weights @ self.priors / weights.sum(), self.prior)
        lone = [
            restated(probabilities(each.logits(embedding[:LONE_ROWS]), temperature), own, self.prior)
            for each, temperature, own in zip(self.lone, self.lone_temperatures, self.priors, strict=True)
        ]
        return levelled(pooled, lone, self.prior, Tilts(self.bias, self.natural))


def tilt_of(posterior: NDArray[np.floating], prior: Vector) -> Vector:
    """(C,) how far the likeliest classes of (n, C) posteriors, made under `prior`, are from it, as log-ratios."""
    return centred_log(likeliest_prior(posterior, prior)) - centred_log(prior)


def levelled(
    pooled: NDArray[np.float64], lone: Sequence[NDArray[np.float64]], prior: Vector, tilts: Tilts
) -> Posteriors:
    """Pooled (n, C) posteriors with their tilt taken out as far as it is the head's own and not the classes'."""
    evidence = evidence_of(pooled, lone, prior)
    usual = centred_log(prior)
    return Posteriors(
        believed=matched(pooled, from_logs(usual + tilts.believed(evidence))),
        unchanged=matched(pooled, prior),
        changed=matched(pooled, from_logs(usual + evidence)),
    )


def evidence_of(pooled: NDArray[np.float64], lone: Sequence[NDArray[np.float64]], prior: Vector) -> Vector:
    """(C,) the tilt that the pooled head and the median head of one domain both see; these on some rows only."""
    each = [tilt_of(posterior, prior) for posterior in lone]
    return agreed(tilt_of(pooled, prior), np.median(each, axis=0))


def mean_direction(embedding: Matrix) -> Vector:
    """(e,) the unit vector along the mean unit embedding."""
    mean = unit_rows(embedding).mean(axis=0, keepdims=True)
    return np.asarray(unit_rows(mean)[0], np.float64)


def nearness(means: NDArray[np.float64], direction: Vector) -> Vector:
    """(K,) weights of domains with (K, e) unit means, the nearest with weight 1."""
    cosines = means @ direction
    return np.asarray(np.exp(NEARNESS * (cosines - cosines.max())), np.float64)


def pooled_head(grams: NDArray[np.floating], crosses: NDArray[np.floating], weights: Vector) -> Head:
    """The least-squares head of domains with these moments and (K,) weights."""
    gram = np.tensordot(weights, grams, 1)
    return Moments(np.asarray(gram, np.float64), np.asarray(np.tensordot(weights, crosses, 1), np.float64)).head()

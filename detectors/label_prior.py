"""How often each class occurs on unlabelled items, when the posteriors that say so are biased themselves.

A head trained on some domains tilts on another one: its mean posterior moves although the classes occur as often
as before. A real change of the classes moves it as well. Nothing on unlabelled items tells the two apart for
certain, so the size of the tilt decides: small ones are what every domain shows, large ones are the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Vector

_LEAST = 1e-3  # no class is taken to be rarer, so that its logarithm stays a number
_ROUNDS = 200
_CLOSE = 1e-5
_TINY = float(np.finfo(np.float64).tiny)
# Scaling is close within 15 rounds where many items are in doubt, and takes thousands where hardly any is: there
# Newton's method goes on, each log-offset moved by at most so much a round.
_SCALINGS = 50
_LONGEST = 3.0

# The chance that the classes of a window differ from those of the domains for a reason of their own, and how far
# they do, as a standard deviation of the centred log-ratios: 1.4 takes 1:1 to 1:7.
CHANGED = 0.1
CHANGED_SPREAD = 1.4


def centred_log(prior: NDArray[np.floating]) -> Vector:
    """(..., C) centred log-ratios of probabilities."""
    logs = np.log(np.maximum(prior, _LEAST))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True), np.float64)


def from_logs(logs: NDArray[np.floating]) -> Vector:
    """(..., C) the probabilities whose logarithms these are, up to a constant."""
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True), np.float64)


def likeliest_prior(posterior: NDArray[np.floating], prior: Vector) -> Vector:
    """(C,) the class probabilities that make (n, C) posteriors, made under `prior`, likeliest; n >= 1.

    The expectation-maximisation of Saerens, Latinne and Decaestecker (2002), stopped where a round moves no class
    by 1e-5. No class is rarer than about 1e-3, before or after.
    """
    found = prior = np.maximum(prior, _LEAST)
    for _ in range(_ROUNDS):
        ratio = found / prior
        # The mean of the rows of posterior * ratio, each divided by its sum; as products, five times as fast.
        following = ratio * ((1 / (posterior @ ratio)) @ posterior) / len(posterior)
        following = np.maximum(following, _LEAST)
        done = np.abs(following - found).max() < _CLOSE
        found = following
        if done:
            break
    return np.asarray(found / found.sum(), np.float64)


def restated(posterior: NDArray[np.floating], before: Vector, after: Vector) -> NDArray[np.float64]:
    """(n, C) posteriors of a head that learnt from classes as often as `before`, had they been so as `after`.

    Bayes: p(y | x) after(y) / before(y), as shares again.
    """
    weighted = posterior * (after / before)
    found: NDArray[np.float64] = weighted / weighted.sum(axis=1, keepdims=True)
    return found


def matched(posterior: NDArray[np.floating], prior: Vector) -> NDArray[np.float64]:
    """(n, C) the posteriors with one offset a class added to their logarithms, so that their mean is `prior`.

    Within 1e-5, and unchanged where it is so already; n >= 1. A class that no item can be, its posteriors all 0,
    stays so and leaves its share to the others; items sure of a class to the last digit stay sure.
    """
    found = np.asarray(posterior, np.float64)
    wanted = np.where(found.max(axis=0) > 0, np.maximum(prior, _TINY), 0.0)
    wanted /= wanted.sum()
    for turn in range(_ROUNDS):
        mean = found.mean(axis=0)
        if np.abs(mean - wanted).max() < _CLOSE:
            break
        found = found * (wanted / np.maximum(mean, _TINY) if turn < _SCALINGS else _newton(found, wanted))
        found /= (found @ np.ones(len(wanted)))[:, np.newaxis]
    return found


def _newton(posterior: NDArray[np.float64], prior: Vector) -> Vector:
    """(C,) factors that take the mean of (n, C) posteriors to `prior`, as far as it moves linearly."""
    mean = posterior.mean(axis=0)
    moved = np.diag(mean) - posterior.T @ posterior / len(posterior)
    # A common offset moves nothing, nor does any where all items are sure: a little ridge leaves it solvable.
    offsets = np.linalg.solve(moved + 1e-9 * np.eye(len(mean)), prior - mean)
    return np.asarray(np.exp(np.clip(offsets - offsets.mean(), -_LONGEST, _LONGEST)), np.float64)


def agreed(first: Vector, second: Vector) -> Vector:
    """The part of the (C,) `first` tilt that `second` has too: along the first, at most all of it.

    Zero where they contradict each other. With two classes it is the shorter of the two; with more it depends on
    which comes first, whose direction it keeps.
    """
    along, whole = float(first @ second), float(first @ first)
    if along <= 0:
        return np.zeros_like(first)
    return first if along >= whole else first * (along / whole)


@dataclass(frozen=True)
class Tilts:
    """How tilts are read. Both are standard deviations of centred log-ratios, a dimension.

    `bias` is how far a head tilts on a domain although nothing changed, `natural` how far the classes of one
    domain differ from those of another.
    """

    bias: float
    natural: float

    def believed(self, tilt: Vector) -> Vector:
        """(C,) how much of a tilt is a change of the classes: its posterior mean.

        Either this is a domain as the others are, or, with probability CHANGED, the classes changed for a reason
        of their own by about CHANGED_SPREAD. Small tilts are mostly bias, large ones mostly true; without bias all
        are true.
        """
        if self.bias**2 == 0:
            return tilt
        size, dimensions = float(tilt @ tilt), len(tilt) - 1
        usual = self.bias**2 + self.natural**2
        changed = usual + CHANGED_SPREAD**2
        odds = (
            np.log(CHANGED / (1 - CHANGED))
            + (dimensions * np.log(usual / changed) + size / usual - size / changed) / 2
        )
        weight = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        kept = (1 - weight) * self.natural**2 / usual + weight * (changed - self.bias**2) / changed
        return np.asarray(kept * tilt, np.float64)

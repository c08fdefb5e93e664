"""Every method that turns shift metrics into a drop by regression over the reference domains, by name."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from detectors.regression import Regression

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from agent.reference import Domain, Reference

# The metrics of to-annotate-or-not, which the ensemble reads together, and those of others or of our own.
PAPER = ("pad", "pad_star", "conf", "conf_calib", "rca", "rca_star")
OTHERS = ("js", "q", "class_shift", "atc", "doc", "cbpe", "cot", "mano")
MEAN, ENSEMBLE, AGREEMENT = "mean", "ensemble", "agreement"
# Two domains fix a line, and a third says whether it is one.
LEAST = 3


@dataclass(frozen=True)
class Errors:
    """How far a method was off on domains it had not seen, on average and at most; fractions, NaN if unknown."""

    mae: float
    max: float


@dataclass(frozen=True)
class Method:
    """A regression of the drop on some metrics."""

    metrics: tuple[str, ...]
    regression: Regression

    def metric(self, metrics: Mapping[str, float]) -> float:
        """The one metric it reads; NaN for a method that reads none or several."""
        return metrics.get(self.metrics[0], np.nan) if len(self.metrics) == 1 else float("nan")

    def drop(self, metrics: Mapping[str, float]) -> float:
        """The drop at these metrics; NaN if one of those it reads is missing."""
        return self.regression.predict(np.array([metrics.get(name, np.nan) for name in self.metrics]))


def methods_of(domains: Sequence[Domain], home: Mapping[str, float] = MappingProxyType({})) -> dict[str, Method]:
    """Mean, a line for each metric that every domain has, and the ensemble; Mean alone with fewer than LEAST.

    `home` holds the metrics of held-out rows of the source itself: where they are given the lines also know that
    nothing is lost there. Through far domains alone they would say anything of windows that are near.
    """
    if not domains:
        return {}
    drops = np.array([domain.drop for domain in domains])
    if len(domains) < LEAST:
        return {MEAN: Method((), Regression.mean(drops))}
    rows = [domain.shift for domain in domains]
    if home:
        rows, known_drops = [*rows, home], np.append(drops, 0.0)
    else:
        known_drops = drops
    table = {name: np.array([row.get(name, np.nan) for row in rows]) for name in PAPER + OTHERS}
    known = {name: column for name, column in table.items() if np.isfinite(column).all()}
    paper = tuple(name for name in PAPER if name in known)
    found = {MEAN: Method((), Regression.mean(drops))}
    found |= {name: Method((name,), Regression.line(column, known_drops)) for name, column in known.items()}
    if paper:
        together = np.stack([known[name] for name in paper], axis=1)
        found[ENSEMBLE] = Method(paper, Regression.ensemble(together, known_drops))
    return found


def backtested(reference: Reference) -> dict[str, Errors]:
    """The leave-one-domain-out errors of every method, the least first; those that are not known last."""
    domains = reference.domains
    methods = methods_of(domains, reference.home)
    found = {name: _errors(method.regression.residuals[: len(domains)]) for name, method in methods.items()}
    off = np.array([domain.left_out[0] - domain.drop for domain in domains if domain.left_out is not None])
    if len(off) and reference.estimator is not None:
        found[AGREEMENT] = _errors(off)
    return dict(sorted(found.items(), key=lambda item: (np.isnan(item[1].mae), item[1].mae)))


def _errors(residuals: NDArray[np.float64]) -> Errors:
    return Errors(float(np.abs(residuals).mean()), float(np.abs(residuals).max()))

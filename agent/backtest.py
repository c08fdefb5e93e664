"""The backtest of a fit: the estimator over the reference domains, and how it does on each one left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from agent.methods import ENSEMBLE, LEAST, methods_of
from agent.reference import Trust
from detectors.drop import LEAST_DOMAINS, DropFit
from detectors.intervals import LEVEL, around, half_width
from detectors.panel import LabelledDomain

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.reference import Domain, Reference
    from agent.taught import TaughtRows
    from detectors.intervals import AccuracyEstimate


def with_estimator(reference: Reference, on_progress: Callable[[int, int], None]) -> Reference:
    """The reference with an estimator, its trust, and each domain's drop as estimated without that domain.

    Where items have one class each it is agreement with the panel of all labelled domains, the source among them,
    that learns from `reference.taught`; for sequence labellers, which have none, the ensemble of regressions. With
    too few domains the reference says so.
    """
    taught = reference.taught
    if taught is None:
        return _regressed(reference)
    least = LEAST_DOMAINS - 1
    if len(taught.domains) < least:
        return replace(reference, trust=Trust(too_few(len(taught.domains), least)))
    classes = len(reference.labels)
    panel = [_labelled(rows, classes) for rows in (taught.source, *taught.domains.values())]
    predicted = [rows.predicted for rows in taught.domains.values()]
    fit = DropFit(panel, [[None, *predicted]], lambda done: on_progress(done, len(panel) + 1))
    estimator = fit.estimator(0)
    covered, checked = fit.coverage()
    found = [each.estimate for each in fit.left_out(0) if each is not None]
    return replace(
        reference,
        domains=_told(reference, found),
        trust=Trust("", estimator.error, estimator.items, covered, checked),
        estimator=estimator,
    )


def too_few(domains: int, least: int) -> str:
    """Why there is no estimate with so few domains."""
    found = f"only {domains} labelled domain{'s' * (domains > 1)}" if domains else "no labelled domains"
    return f"the reference has {found} beside its source: name at least {least} under `domains` and fit it again"


def _labelled(rows: TaughtRows, classes: int) -> LabelledDomain:
    return LabelledDomain(rows.embedding.astype(np.float32), rows.labels, classes)


def _regressed(reference: Reference) -> Reference:
    """With the ensemble of regressions, and its leave-one-out errors."""
    domains = reference.domains
    if len(domains) < LEAST:
        return replace(reference, trust=Trust(too_few(len(domains), LEAST)))
    residuals = methods_of(domains, reference.home)[ENSEMBLE].regression.residuals[: len(domains)]
    each = residuals[:, np.newaxis]
    items = float(np.median([domain.n for domain in domains]))
    widths = [half_width(list(np.delete(each, place, axis=0)), LEVEL) for place in range(len(domains))]
    found = [
        around(domain.accuracy + residual, width, domain.n, items)
        for domain, residual, width in zip(domains, residuals.tolist(), widths, strict=True)
    ]
    covered = float((np.abs(residuals) <= widths).mean())
    trust = Trust("", half_width(list(each), LEVEL), items, covered, len(domains))
    return replace(reference, domains=_told(reference, found), trust=trust)


def _told(reference: Reference, found: list[AccuracyEstimate]) -> tuple[Domain, ...]:
    """The domains with the drop that was estimated on each while it was left out."""
    source = reference.source.accuracy["test"]
    return tuple(
        replace(domain, left_out=(source - each.accuracy, source - each.high, source - each.low))
        for domain, each in zip(reference.domains, found, strict=True)
    )

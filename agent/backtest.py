"""The backtest of a fit: the estimator over the reference domains, and how it does on each one left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agent.methods import ENSEMBLE, LEAST, methods_of
from agent.observed import drawn
from agent.reference import Trust
from detectors.drop import LEAST_DOMAINS, DropFit
from detectors.intervals import LEVEL, around, half_width
from detectors.panel import LabelledDomain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from agent.reference import Domain, Reference
    from detectors.contract import Outputs
    from detectors.intervals import AccuracyEstimate

# Rows of a labelled domain that its head learns from: as many as a window's sample and as many again.
MOST_ROWS = 4_000


@dataclass(frozen=True)
class Taught:
    """Rows that teach: the outputs of n items and their class indices (n,)."""

    outputs: Outputs
    labels: NDArray[np.intp]


def with_estimator(
    reference: Reference,
    train: Taught,
    domains: Mapping[str, Taught],
    on_progress: Callable[[int, int], None],
) -> Reference:
    """The reference with an estimator, its trust, and each domain's drop as estimated without that domain.

    Where items have one class each it is agreement with the panel of all labelled domains, the source among them;
    for sequence labellers the ensemble of regressions. With too few domains the reference says so.
    """
    if train.outputs.logits is None:
        return _regressed(reference)
    least = LEAST_DOMAINS - 1
    if len(domains) < least:
        return replace(reference, trust=Trust(too_few(len(domains), least)))
    rows = {name: drawn(len(taught.labels), MOST_ROWS) for name, taught in domains.items()}
    panel = [_labelled(train, drawn(len(train.labels), MOST_ROWS), len(reference.labels))]
    panel += [_labelled(taught, rows[name], len(reference.labels)) for name, taught in domains.items()]
    predicted = [_predicted(taught)[rows[name]] for name, taught in domains.items()]
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


def _labelled(taught: Taught, rows: NDArray[np.intp], classes: int) -> LabelledDomain:
    embedding = taught.outputs.embedding[rows].astype(np.float32)
    return LabelledDomain(embedding, taught.labels[rows], classes)


def _predicted(taught: Taught) -> NDArray[np.intp]:
    logits = taught.outputs.logits
    chosen: NDArray[np.intp] = np.zeros(0, np.intp) if logits is None else logits.argmax(axis=1)
    return chosen


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

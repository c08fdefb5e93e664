"""The estimator that a fit ends with, and what it did on each domain left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.backtest import with_estimator
from agent.methods import ENSEMBLE, methods_of
from agent.observed import drawn
from agent.taught import Taught, TaughtRows
from tests.agent.panel_bench import DOMAINS, ROWS, drawn_from, fitted, outputs_of

if TYPE_CHECKING:
    from agent.reference import Reference


def test_enough_domains_make_an_estimator() -> None:
    """With two domains and the source there is an estimator over all three, with an error and a coverage."""
    reference = fitted(2)
    trust, estimator = reference.trust, reference.estimator
    assert estimator is not None
    assert len(estimator.panel.means) == 3
    assert (trust.refusal, trust.error, trust.items) == ("", estimator.error, estimator.items)
    assert 0 < trust.error < 0.5
    assert (0 <= trust.covered <= 1, trust.checked) == (True, 6)


@pytest.mark.parametrize(
    ("domains", "task", "found", "least"),
    [
        (0, "classification", "no labelled domains", 2),
        (1, "classification", "only 1 labelled domain", 2),
        (0, "tokens", "no labelled domains", 3),
        (2, "tokens", "only 2 labelled domains", 3),
    ],
)
def test_too_few_domains_are_told_apart(domains: int, task: str, found: str, least: int) -> None:
    """Without enough domains there is no estimator, and the reference says how many would do, and where."""
    reference = fitted(domains, task=task)
    assert (reference.estimator, reference.trust.checked) == (None, 0)
    assert np.isnan([reference.trust.error, reference.trust.items, reference.trust.covered]).all()
    assert [domain.left_out for domain in reference.domains] == [None] * domains
    assert reference.trust.refusal == (
        f"the reference has {found} beside its source: name at least {least} under `domains` and fit it again"
    )


@pytest.mark.parametrize(("classes", "task"), [(2, "classification"), (3, "classification"), (2, "tokens")])
def test_a_left_out_domain_is_estimated_near_its_drop(classes: int, task: str) -> None:
    """Each domain has an estimate within its bounds, and the bounds hold most of the realised drops."""
    reference = fitted(4, classes, task)
    held = []
    for domain in reference.domains:
        assert domain.left_out is not None
        estimate, low, high = domain.left_out
        assert low <= estimate <= high
        assert abs(estimate - domain.drop) < 0.15
        held.append(low <= domain.drop <= high)
    assert sum(held) >= 3


def test_a_left_out_domain_has_no_part_in_its_estimate() -> None:
    """With every label of one domain turned round, its own estimate stays as it was and the others' move."""
    reference = fitted(3)
    taught = {name: _taught(name) for name in DOMAINS[:3]}
    turned = taught | {DOMAINS[1]: replace(taught[DOMAINS[1]], labels=1 - taught[DOMAINS[1]].labels)}
    one, other = (_estimated(reference, each).domains for each in (taught, turned))
    gaps = [
        abs(a.left_out[0] - b.left_out[0]) for a, b in zip(one, other, strict=True) if a.left_out and b.left_out
    ]
    # The slope and the temperature are fitted on all, the panel itself is not.
    assert gaps[1] < 1e-12
    assert min(gaps[0], gaps[2]) > 1e-4


def _taught(name: str) -> TaughtRows:
    items = drawn_from(name, ROWS)
    return TaughtRows.of(outputs_of(fitted(3), items), items.labels, drawn(ROWS))


def _estimated(reference: Reference, domains: dict[str, TaughtRows]) -> Reference:
    taught = Taught(_taught("source"), domains)
    return with_estimator(replace(reference, taught=taught), lambda done, total: None)  # noqa: ARG005


def test_the_rows_order_in_a_table_matters_no_more_than_rounding() -> None:
    """A domain sorted by label gives the estimator that it gives mixed."""
    reference = fitted(3)
    taught = {name: _taught(name) for name in DOMAINS[:3]}
    ordered = {}
    for name in DOMAINS[:3]:
        items = drawn_from(name, ROWS)
        by_label = items.take(np.argsort(items.labels))
        ordered[name] = TaughtRows.of(outputs_of(reference, by_label), by_label.labels, drawn(ROWS))
    one, other = (_estimated(reference, each) for each in (taught, ordered))
    assert one.trust.error == pytest.approx(other.trust.error, abs=1e-6)
    assert [domain.left_out for domain in one.domains] == [
        pytest.approx(domain.left_out, abs=1e-6) for domain in other.domains
    ]


def test_progress_reaches_its_end() -> None:
    """Every panel is told as it is done, the last one as the whole."""
    told: list[tuple[int, int]] = []
    with_estimator(fitted(2), lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_tokens_are_estimated_by_the_ensemble() -> None:
    """Without a class for each item, a domain's estimate is what the ensemble of the others says of it."""
    reference = fitted(4, task="tokens")
    residuals = methods_of(reference.domains, reference.home)[ENSEMBLE].regression.residuals
    assert len(residuals) == len(reference.domains) + 1  # the source itself is the last
    for domain, residual in zip(reference.domains, residuals, strict=False):
        assert domain.left_out is not None
        assert domain.left_out[0] == pytest.approx(domain.drop - residual)
    assert reference.trust.error > np.abs(residuals).max() * 0.9
    assert reference.trust.checked == 4

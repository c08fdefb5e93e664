"""The panel's posteriors, held against heads trained by scikit-learn and against the symmetries they must have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from detectors.label_prior import Tilts, restated
from detectors.least_squares import STRENGTH, Moments
from detectors.panel import (
    LONE_ROWS,
    LONE_STRENGTH,
    NEARNESS,
    LabelledDomain,
    Panel,
    Posteriors,
    evidence_of,
    levelled,
    mean_direction,
    nearness,
    pooled_head,
    tilt_of,
)
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from conftest import World

SEEDS = st.integers(0, 2**32 - 1)


def panel_of(domains: list[LabelledDomain]) -> Panel:
    """A panel of these domains, its temperatures and deviations by hand."""
    parts = [
        Moments.of_labels(part.embedding, part.labels, part.classes).scaled(1 / len(part)) for part in domains
    ]
    return Panel(
        grams=np.stack([part.gram for part in parts]),
        crosses=np.stack([part.cross for part in parts]),
        means=np.stack([mean_direction(part.embedding) for part in domains]),
        priors=np.stack([part.prior for part in domains]),
        temperature=0.3,
        lone_temperatures=np.full(len(domains), 0.4),
        bias=0.4,
        natural=0.2,
    )


def parts_of(posteriors: Posteriors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Its three arrays."""
    return posteriors.believed, posteriors.unchanged, posteriors.changed


def test_the_prior_of_a_domain_counts_absent_classes() -> None:
    """Shares sum to one over all classes, each counted once more than it occurs."""
    domain = LabelledDomain(np.zeros((4, 2)), np.array([2, 0, 2, 2]), 4)
    np.testing.assert_array_equal(domain.prior, [0.25, 0.125, 0.5, 0.125])
    assert len(domain) == 4


def test_agreement_is_the_mean_probability_of_what_was_predicted() -> None:
    """Three posteriors give three means over the items, each of its predicted class."""
    believed = np.array([[0.9, 0.1], [0.3, 0.7]])
    found = Posteriors(believed, believed[:, ::-1], np.full((2, 2), 0.5)).agreements(np.array([0, 0]))
    assert found == pytest.approx((0.6, 0.4, 0.5))


@given(seed=SEEDS, count=st.integers(1, 5))
def test_near_domains_count_most(seed: int, count: int) -> None:
    """The nearest has weight 1; weights fall by e for each 1 / NEARNESS of cosine."""
    rng = np.random.default_rng(seed)
    means, direction = (mean_direction(rng.normal(size=(3, 6))) for _ in range(2))
    stack = np.stack([means, *(mean_direction(rng.normal(size=(3, 6))) for _ in range(count))])
    weights = nearness(stack, direction)
    assert weights.max() == 1
    ratio = np.exp(NEARNESS * (stack[0] @ direction - stack[1] @ direction))
    assert weights[0] / weights[1] == pytest.approx(ratio)


def test_embeddings_that_cancel_have_no_direction() -> None:
    """The mean of opposite rows, or of zeros, is the zero vector, and every domain counts alike for it."""
    for rows in (np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros((3, 2))):
        direction = mean_direction(rows)
        np.testing.assert_array_equal(direction, [0, 0])
        np.testing.assert_array_equal(nearness(np.eye(2), direction), [1, 1])


def test_the_direction_forgets_lengths() -> None:
    """Rows count alike however long they are, and the direction has length 1."""
    rows = np.random.default_rng(1).normal(1, 1, (20, 5))
    found = mean_direction(rows * np.arange(1, 21)[:, np.newaxis])
    np.testing.assert_allclose(found, mean_direction(rows))
    assert np.linalg.norm(found) == pytest.approx(1)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_pooled_head_is_a_weighted_ridge(new_world: type[World], classes: int) -> None:
    """The head equals scikit-learn's ridge on the rows of all domains, each row with its domain's weight."""
    domains = new_world(2, classes).domains(3)
    panel, weights = panel_of(domains), np.array([1.0, 0.2, 0.5])
    head = pooled_head(panel.grams, panel.crosses, weights)
    items = np.concatenate([part.embedding for part in domains]).astype(np.float64)
    counts = np.repeat(weights / 120, 120)
    alpha = STRENGTH * (counts @ np.square(items)).sum() / 8
    labels = np.eye(classes)[np.concatenate([part.labels for part in domains])]
    ridge = Ridge(alpha=alpha).fit(items, labels, sample_weight=counts)
    np.testing.assert_allclose(head.weight, ridge.coef_, atol=1e-7)
    np.testing.assert_allclose(head.bias, ridge.intercept_, atol=1e-7)
    np.testing.assert_allclose(pooled_head(panel.grams, panel.crosses, weights * 7).weight, head.weight, atol=1e-9)


def test_the_panel_is_its_heads_levelled(new_world: type[World]) -> None:
    """Posteriors are those of the pooled head, levelled by what the heads trained on one domain each see."""
    world = new_world(3)
    domains, window = world.domains(4), world.domain(80)
    panel = panel_of(domains)
    items = window.embedding
    weights = nearness(panel.means, mean_direction(items))
    pooled = probabilities(pooled_head(panel.grams, panel.crosses, weights).logits(items), 0.3)
    pooled = restated(pooled, np.average(panel.priors, axis=0, weights=weights), panel.prior)
    lone = []
    for part in domains:
        logits = Moments.of_labels(part.embedding, part.labels, 2).head(LONE_STRENGTH).logits(items)
        lone.append(restated(probabilities(logits, 0.4), part.prior, panel.prior))
    expected = levelled(pooled, lone, panel.prior, Tilts(0.4, 0.2))
    for found, part in zip(parts_of(panel.posteriors(items)), parts_of(expected), strict=True):
        np.testing.assert_allclose(found, part, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_posteriors_lie_between_unchanged_and_changed(new_world: type[World], classes: int) -> None:
    """Rows are shares; unchanged has the domains' prior as its mean, changed all of a tilt, believed some."""
    world = new_world(4, classes)
    panel = panel_of(world.domains(4))
    window = world.domain(400, prior=np.r_[0.8, np.full(classes - 1, 0.2 / (classes - 1))])
    found = panel.posteriors(window.embedding)
    for part in parts_of(found):
        assert part.shape == (400, classes)
        np.testing.assert_allclose(part.sum(axis=1), 1)
        assert (part >= 0).all()
    np.testing.assert_allclose(found.unchanged.mean(axis=0), panel.prior, atol=1e-5)
    first = [part[:, 0].mean() for part in (found.unchanged, found.believed, found.changed)]
    assert first == sorted(first)


@pytest.mark.parametrize("rows", [60, LONE_ROWS])
def test_up_to_lone_rows_the_order_does_not_matter(new_world: type[World], rows: int) -> None:
    """Rows in another order have their own posteriors as before."""
    world = new_world(5)
    panel, items = panel_of(world.domains(3)), world.domain(rows).embedding
    order = np.random.default_rng(6).permutation(rows)
    for found, moved in zip(
        parts_of(panel.posteriors(items)), parts_of(panel.posteriors(items[order])), strict=True
    ):
        np.testing.assert_allclose(moved, found[order], atol=1e-6)


def test_beyond_lone_rows_a_random_order_hardly_matters(new_world: type[World]) -> None:
    """Of more rows the heads of one domain see the first only: a random order moves the agreement by little."""
    world = new_world(6)
    panel, window = panel_of(world.domains(3)), world.domain(3 * LONE_ROWS)
    items, predicted = window.embedding, window.labels
    rng = np.random.default_rng(7)
    orders = [rng.permutation(len(items)) for _ in range(4)]
    found = [panel.posteriors(items[order]).agreements(predicted[order]) for order in orders]
    assert np.ptp([believed for believed, *_ in found]) < 0.01
    assert np.ptp(found, axis=0).max() < 0.05


def test_a_panel_does_not_depend_on_the_order_of_its_domains(new_world: type[World]) -> None:
    """Domains in another order give the same posteriors."""
    world = new_world(7)
    domains, items = world.domains(4), world.domain().embedding
    one, other = panel_of(domains).posteriors(items), panel_of(domains[::-1]).posteriors(items)
    for found, moved in zip(parts_of(one), parts_of(other), strict=True):
        np.testing.assert_allclose(moved, found, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_classes_may_change_their_names(new_world: type[World], classes: int) -> None:
    """With classes numbered in another order the posteriors are the same, columns in that order."""
    world = new_world(8, classes)
    domains, items = world.domains(3), world.domain().embedding
    order = np.roll(np.arange(classes), 1)
    renamed = [LabelledDomain(part.embedding, order[part.labels], classes) for part in domains]
    one, other = panel_of(domains).posteriors(items), panel_of(renamed).posteriors(items)
    for found, moved in zip(parts_of(one), parts_of(other), strict=True):
        np.testing.assert_allclose(moved[:, order], found, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_handful_of_items_has_posteriors(new_world: type[World], rows: int) -> None:
    """One to five items, all the same or not, give finite shares."""
    world = new_world(9, 3)
    panel, items = panel_of(world.domains(3)), world.domain(rows).embedding
    for window in (items, np.repeat(items[:1], rows, axis=0), np.zeros_like(items)):
        for part in parts_of(panel.posteriors(window)):
            assert np.isfinite(part).all()
            np.testing.assert_allclose(part.sum(axis=1), 1)


def test_domains_of_one_class_and_absent_classes_are_no_trap(new_world: type[World]) -> None:
    """A domain of one class, and a class that no domain has, leave every posterior a share."""
    world = new_world(10)
    domains = [LabelledDomain(part.embedding, part.labels, 3) for part in world.domains(3)]
    domains.append(LabelledDomain(domains[0].embedding, np.zeros(120, int), 3))
    found = panel_of(domains).posteriors(world.domain().embedding)
    for part in parts_of(found):
        assert np.isfinite(part).all()
        np.testing.assert_allclose(part.sum(axis=1), 1)
    assert found.unchanged[:, 2].mean() < 0.02


def test_constant_embeddings_know_the_prior_only() -> None:
    """Where every item is the same, each posterior unchanged is the share of the classes."""
    labels = np.array([0, 0, 0, 1])
    panel = panel_of([LabelledDomain(np.ones((4, 3)), labels, 2)] * 3)
    found = panel.posteriors(np.ones((5, 3))).unchanged
    np.testing.assert_allclose(found, [panel.prior] * 5, atol=1e-5)
    assert panel.prior[0] > panel.prior[1]


@given(seed=SEEDS)
def test_evidence_needs_the_pooled_head_and_the_median_one(seed: int) -> None:
    """Where the median head contradicts the pooled one there is no evidence; where it agrees, all of the tilt."""
    rng = np.random.default_rng(seed)
    prior = np.array([0.5, 0.5])
    up = probabilities(rng.normal([1.0, 0.0], 1, (60, 2)))
    if tilt_of(up, prior)[0] <= 0:
        return
    np.testing.assert_allclose(evidence_of(up, [up, up, up[:, ::-1]], prior), tilt_of(up, prior))
    assert not evidence_of(up, [up[:, ::-1], up[:, ::-1], up], prior).any()


def test_moments_in_single_precision_do(new_world: type[World]) -> None:
    """With float32 moments, as an artefact keeps them, no posterior moves by 1e-4."""
    world = new_world(11, 3)
    panel, items = panel_of(world.domains(4)), world.domain().embedding
    single = replace(panel, grams=panel.grams.astype(np.float32), crosses=panel.crosses.astype(np.float32))
    for found, rounded in zip(parts_of(panel.posteriors(items)), parts_of(single.posteriors(items)), strict=True):
        np.testing.assert_allclose(rounded, found, atol=1e-4)


def test_a_panel_writes_to_nothing(new_world: type[World]) -> None:
    """Neither the items nor the panel change, and asking twice gives the same."""
    world = new_world(12)
    panel, items = panel_of(world.domains(3)), world.domain().embedding
    copies = items.copy(), panel.grams.copy()
    first, second = panel.posteriors(items), panel.posteriors(items)
    np.testing.assert_array_equal(first.believed, second.believed)
    np.testing.assert_array_equal(items, copies[0])
    np.testing.assert_array_equal(panel.grams, copies[1])

"""The drop estimator on simulated domains: it is near, and its interval holds the truth as often as it says."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from detectors.contract import FitError
from detectors.drop import SLOPE_RIDGE, AccuracyLine, DropFit
from detectors.intervals import half_width
from detectors.least_squares import Moments, predicted
from detectors.panel import LabelledDomain, Panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import World

    from detectors.contract import Head

SEEDS = st.integers(0, 2**32 - 1)


def model_of(domain: LabelledDomain) -> Head:
    """A model trained on one domain."""
    return Moments.of_labels(domain.embedding, domain.labels, domain.classes).head(0.1)


def fitted(domains: Sequence[LabelledDomain]) -> DropFit:
    """The fit of one model, trained on the first domain."""
    head = model_of(domains[0])
    return DropFit(domains, [[None, *(predicted(head, part.embedding) for part in domains[1:])]])


@given(seed=SEEDS, models=st.integers(1, 5), domains=st.integers(2, 8))
def test_the_line_is_a_regression_with_an_effect_for_each_model(seed: int, models: int, domains: int) -> None:
    """Slopes equal scikit-learn's with a dummy for each model, once the ridge towards 1 is added as two rows."""
    rng = np.random.default_rng(seed)
    agreements, accuracies = rng.uniform(size=(2, models, domains))
    agreements[rng.random(agreements.shape) < 0.3] = np.nan
    agreements[:, 0], accuracies[0, 1] = 0.5, np.nan
    line = AccuracyLine.fit(agreements, accuracies)
    known = ~np.isnan(agreements + accuracies)
    dummies = np.broadcast_to(np.eye(models)[:, np.newaxis], (models, domains, models))[known]
    pull = math.sqrt(SLOPE_RIDGE)
    rows = np.vstack([np.column_stack([agreements[known], dummies]), [pull, *np.zeros(models)]])
    goals = np.r_[accuracies[known], pull]
    trained = LinearRegression(fit_intercept=False).fit(rows, goals)
    assert line.slope == pytest.approx(trained.coef_[0])
    for value in (0.2, 0.9):
        found = line.accuracy(np.full(models, value))
        np.testing.assert_allclose(found, trained.coef_[1:] + trained.coef_[0] * value, atol=1e-9)


def test_a_model_without_a_domain_has_no_line() -> None:
    """A model known nowhere is NaN, the others are not; one domain alone gives slope 1."""
    line = AccuracyLine.fit(np.array([[np.nan], [0.7]]), np.array([[0.4], [0.8]]))
    assert line.slope == 1
    found = line.accuracy(np.array([0.5, 0.6]))
    assert math.isnan(found[0])
    assert found[1] == pytest.approx(0.7)


# Domains, fits, and new domains a fit. Errors on new domains of one fit go together: hence several fits.
SIMULATED = [(3, 20, 5), (5, 10, 6), (10, 3, 20), (19, 1, 40)]


@pytest.mark.parametrize(("count", "fits", "new"), SIMULATED)
def test_new_domains_lie_near_the_estimate_and_within_the_interval(
    new_world: type[World], count: int, fits: int, new: int
) -> None:
    """On new simulated domains the estimate beats the mean accuracy, and 80 to 100 % lie within its bounds."""
    inside, errors, plain = [], [], []
    for seed in range(fits):
        world = new_world(100 * count + seed)
        domains = world.domains(count, rows=80)
        fit, head = fitted(domains), model_of(domains[0])
        estimator = fit.estimator(0)
        known = [part.accuracy for part in fit.left_out(0) if part is not None]
        for window in world.domains(new, rows=80):
            said = predicted(head, window.embedding)
            truth, found = (said == window.labels).mean(), estimator.estimate(window.embedding, said)
            inside.append(found.low <= truth <= found.high)
            errors.append(abs(found.accuracy - truth))
            plain.append(abs(np.mean(known) - truth))
    assert 0.8 <= np.mean(inside) <= 1
    assert np.mean(errors) < np.mean(plain)
    assert np.mean(errors) < 0.1


@pytest.fixture(scope="module")
def world(new_world: type[World]) -> World:
    """The world of the tests below."""
    return new_world(1)


@pytest.fixture(scope="module")
def domains(world: World) -> list[LabelledDomain]:
    """Five domains of it."""
    return world.domains(5, rows=150)


@pytest.fixture(scope="module")
def fit(domains: list[LabelledDomain]) -> DropFit:
    """The fit of a model trained on the first of them."""
    return fitted(domains)


def test_smaller_windows_have_wider_intervals(world: World, domains: list[LabelledDomain], fit: DropFit) -> None:
    """At the same agreement fewer items widen the bounds, which are ordered and within [0, 1]."""
    estimator = fit.estimator(0)
    window = world.domain(150)
    posteriors = estimator.panel.posteriors(window.embedding)
    agreements = posteriors.agreements(predicted(model_of(domains[0]), window.embedding))
    found = [estimator.between(agreements, items) for items in (1, 5, 30, 149, 150, 10_000)]
    widths = [part.high - part.low for part in found]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[1] > widths[2] > widths[3] > widths[4] == widths[5]
    assert all(0 <= part.low <= part.accuracy <= part.high <= 1 for part in found)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_handful_of_items_has_an_estimate(
    world: World, domains: list[LabelledDomain], fit: DropFit, rows: int
) -> None:
    """One to five items have ordered bounds in [0, 1], and wide ones."""
    window = world.domain(rows)
    found = fit.estimator(0).estimate(window.embedding, predicted(model_of(domains[0]), window.embedding))
    assert 0 <= found.low <= found.accuracy <= found.high <= 1
    assert found.high - found.low > 0.3


def test_the_worst_model_is_found_out(world: World, domains: list[LabelledDomain]) -> None:
    """Of a model that is right and one that errs on half of the items, the estimates differ by about as much."""
    rng = np.random.default_rng(2)
    right = [part.labels for part in domains]
    wrong = [np.where(rng.random(len(part)) < 0.5, 1 - part.labels, part.labels) for part in domains]
    fit, window = DropFit(domains, [right, wrong]), world.domain(300)
    good = fit.estimator(0).estimate(window.embedding, window.labels)
    poor = fit.estimator(1).estimate(
        window.embedding, np.where(np.arange(300) % 2, window.labels, 1 - window.labels)
    )
    assert good.accuracy > 0.85
    assert poor.accuracy == pytest.approx(0.5, abs=0.1)


def test_what_is_left_out_has_not_seen_the_labels(domains: list[LabelledDomain]) -> None:
    """A domain's labels change its accuracy and not the estimate made without it; its bounds they may."""
    head, place = model_of(domains[0]), 3
    models = [[None, *(predicted(head, part.embedding) for part in domains[1:])]]
    labels = np.random.default_rng(3).permutation(domains[place].labels)
    other = [replace(part, labels=labels) if o == place else part for o, part in enumerate(domains)]
    before, after = (DropFit(each, models).left_out(0) for each in (domains, other))
    assert before[0] is None
    assert before[place].accuracy != after[place].accuracy
    assert before[place].estimate.accuracy == after[place].estimate.accuracy


def test_what_is_left_out_is_what_a_fit_without_it_estimates(domains: list[LabelledDomain], fit: DropFit) -> None:
    """The estimate of a domain left out equals that of an estimator fitted on the others."""
    head, place = model_of(domains[0]), 4
    alone = fitted(domains[:place]).estimator(0)
    expected = alone.estimate(domains[place].embedding, predicted(head, domains[place].embedding))
    assert fit.left_out(0)[place].estimate.accuracy == pytest.approx(expected.accuracy, abs=1e-4)


def test_coverage_counts_errors_within_the_others_interval(fit: DropFit) -> None:
    """The share of each domain's errors within the half width of the others, and how many errors there are."""
    errors = fit.errors
    inside = [
        np.mean(np.abs(part) <= half_width([*errors[:place], *errors[place + 1 :]]))
        for place, part in enumerate(errors)
    ]
    assert fit.coverage() == (pytest.approx(np.mean(inside)), 20)
    assert [len(part) for part in errors] == [4] * 5


def test_the_interval_is_that_of_the_errors(domains: list[LabelledDomain], fit: DropFit) -> None:
    """An estimator's error is the half width of all left-out errors, its items the median size of the domains."""
    estimator = fit.estimator(0)
    assert estimator.error == half_width(fit.errors)
    assert estimator.items == np.median([len(part) for part in domains])


def test_estimates_are_the_same_twice(world: World, domains: list[LabelledDomain], fit: DropFit) -> None:
    """Fitting and estimating again gives the same numbers to the bit."""
    window = world.domain(90)
    said = predicted(model_of(domains[0]), window.embedding)
    again = fitted(domains)
    assert fit.estimator(0).estimate(window.embedding, said) == again.estimator(0).estimate(window.embedding, said)
    assert fit.left_out(0) == again.left_out(0)
    assert fit.coverage() == again.coverage()


def test_an_estimator_survives_single_precision(world: World, domains: list[LabelledDomain], fit: DropFit) -> None:
    """With every array of its panel in float32, and back from plain arrays, no estimate moves by 1e-3."""
    estimator, head = fit.estimator(0), model_of(domains[0])
    arrays = {item.name: np.asarray(getattr(estimator.panel, item.name), np.float32) for item in fields(Panel)}
    values = {name: array if array.ndim else array.item() for name, array in arrays.items()}
    kept = replace(estimator, panel=Panel(**values))
    for rows in (5, 60, 700):
        window = world.domain(rows)
        said = predicted(head, window.embedding)
        first, second = (each.estimate(window.embedding, said) for each in (estimator, kept))
        for name in ("accuracy", "low", "high"):
            assert getattr(second, name) == pytest.approx(getattr(first, name), abs=1e-3)


def test_a_model_that_no_domain_has_seen_has_no_estimate(world: World, domains: list[LabelledDomain]) -> None:
    """Without predictions on any domain the estimate and its bounds are NaN, and nothing was left out."""
    fit, window = DropFit(domains[:3], [[None, None, None]]), world.domain(20)
    found = fit.estimator(0).estimate(window.embedding, window.labels)
    assert all(map(math.isnan, (found.accuracy, found.low, found.high)))
    assert fit.left_out(0) == [None, None, None]


@pytest.mark.parametrize("classes", [3, 5])
def test_more_classes_are_estimated_too(new_world: type[World], classes: int) -> None:
    """With three or five classes, one of them absent from a domain, new domains lie near the estimate."""
    world = new_world(4, classes)
    domains = world.domains(5, rows=150)
    domains[1] = replace(domains[1], labels=np.where(domains[1].labels == 2, 0, domains[1].labels))
    estimator, head = fitted(domains).estimator(0), model_of(domains[0])
    errors = []
    for window in world.domains(10, rows=150):
        said = predicted(head, window.embedding)
        errors.append(estimator.estimate(window.embedding, said).accuracy - (said == window.labels).mean())
    assert np.mean(np.abs(errors)) < 0.1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_domains_are_refused(domains: list[LabelledDomain], count: int) -> None:
    """Two domains, source and one reference, are too few, and the message counts reference domains."""
    with pytest.raises(FitError, match="at least 2 are needed"):
        DropFit(domains[:count], [[None] * count])


def test_progress_is_told_after_every_panel(domains: list[LabelledDomain]) -> None:
    """Three domains make four panels."""
    told: list[int] = []
    DropFit(domains[:3], [], told.append)
    assert told == [1, 2, 3, 4]

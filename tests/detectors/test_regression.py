"""Regressions from shift to drop, held against scikit-learn and against fitting again without a domain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from detectors.contract import FitError
from detectors.regression import STRENGTHS, Regression

SEEDS = st.integers(0, 2**32 - 1)


def domains(seed: int, count: int, metrics: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(K, m) metrics of different scales and (K,) drops that depend on them."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, metrics)) * 10.0 ** rng.integers(-3, 4, metrics) + rng.normal(size=metrics)
    return values, 0.05 + (values / values.std(axis=0)).sum(axis=1) * 0.02 + rng.normal(0, 0.01, count)


def refitted(metrics: np.ndarray, drops: np.ndarray, ridge: float) -> np.ndarray:
    """(K,) errors on each domain of scikit-learn's regression on the others."""
    model = Ridge(alpha=ridge) if ridge else LinearRegression()
    kept = [np.arange(len(drops)) != place for place in range(len(drops))]
    left = [model.fit(metrics[rows], drops[rows]).predict(metrics[~rows])[0] for rows in kept]
    return drops - np.array(left)


@given(seed=SEEDS, count=st.integers(3, 25))
def test_residuals_are_those_of_a_line_fitted_without_the_domain(seed: int, count: int) -> None:
    """The leave-one-out residuals of a line equal fitting again without each domain."""
    metrics, drops = domains(seed, count)
    found = Regression.line(metrics[:, 0], drops)
    np.testing.assert_allclose(found.residuals, refitted(metrics, drops, 0), rtol=1e-5, atol=1e-8)
    assert found.mae == pytest.approx(np.abs(found.residuals).mean())
    assert found.worst == pytest.approx(np.abs(found.residuals).max())


@given(seed=SEEDS, count=st.integers(2, 25), width=st.integers(1, 6), ridge=st.sampled_from([0.1, 3.0, 50.0]))
def test_residuals_of_a_ridge_are_those_of_fitting_again(seed: int, count: int, width: int, ridge: float) -> None:
    """With a ridge too, slopes are scikit-learn's, and so are the residuals of fitting again."""
    rng = np.random.default_rng(seed)
    metrics, drops = rng.normal(size=(count, width)), rng.normal(size=count)
    found = Regression.least_squares(metrics, drops, ridge)
    np.testing.assert_allclose(found.slopes, Ridge(alpha=ridge).fit(metrics, drops).coef_, atol=1e-9)
    np.testing.assert_allclose(found.residuals, refitted(metrics, drops, ridge), atol=1e-8)


@given(seed=SEEDS, count=st.integers(3, 25))
def test_a_line_is_ordinary_least_squares(seed: int, count: int) -> None:
    """A line predicts what scikit-learn's regression does, inside the domains and beyond."""
    metrics, drops = domains(seed, count)
    found, trained = Regression.line(metrics[:, 0], drops), LinearRegression().fit(metrics, drops)
    for value in (metrics[0], metrics.max(axis=0) * 2):
        assert found.predict(value) == pytest.approx(trained.predict(value[np.newaxis])[0], rel=1e-6, abs=1e-9)


@given(seed=SEEDS, count=st.integers(2, 10), value=st.sampled_from([0.0, 0.1, -3.7, 1e6, 1e-200]))
def test_a_constant_metric_is_the_mean(seed: int, count: int, value: float) -> None:
    """Where all domains show the same but for rounding, line and ensemble have slope 0, as the Mean."""
    drops = np.random.default_rng(seed).normal(size=count)
    metric = np.full(count, value) * (1 + 1e-15 * np.arange(count))
    mean = Regression.mean(drops)
    for found in (Regression.line(metric, drops), Regression.ensemble(metric[:, np.newaxis], drops)):
        np.testing.assert_array_equal(found.slopes, [0.0])
        np.testing.assert_allclose(found.residuals, mean.residuals)
        assert found.predict(np.array([value + 5])) == mean.predict(np.empty(0)) == pytest.approx(drops.mean())


def test_the_mean_by_hand() -> None:
    """Drops 1, 2 and 6 average 3; left out they lie 3 and 1.5 below and 4.5 above the mean of the others."""
    found = Regression.mean(np.array([1.0, 2.0, 6.0]))
    assert found.predict(np.empty(0)) == 3
    np.testing.assert_allclose(found.residuals, [-3, -1.5, 4.5])
    assert found.mae == pytest.approx(3)
    assert found.worst == pytest.approx(4.5)


@given(seed=SEEDS, count=st.integers(3, 12), offset=st.floats(-1, 1))
def test_rca_and_its_star_predict_alike(seed: int, count: int, offset: float) -> None:
    """Metrics that differ by a constant, as RCA and RCA* of one source do, give the same line."""
    metrics, drops = domains(seed, count)
    metric = metrics[:, 0] / metrics[:, 0].std()
    first, second = Regression.line(metric, drops), Regression.line(metric + offset, drops)
    for value in (-1.0, 0.0, 2.5):
        assert first.predict(np.array([value])) == pytest.approx(
            second.predict(np.array([value + offset])), abs=1e-9
        )
    np.testing.assert_allclose(first.residuals, second.residuals, rtol=1e-6, atol=1e-9)


@settings(max_examples=15)
@given(seed=SEEDS, count=st.integers(4, 25), width=st.integers(1, 7))
def test_the_ensemble_is_the_ridge_of_least_error(seed: int, count: int, width: int) -> None:
    """It is scikit-learn's ridge on standardised metrics, at the strength with the least leave-one-out error."""
    metrics, drops = domains(seed, count, width)
    scaled = metrics / metrics.std(axis=0)
    errors = [np.abs(refitted(scaled, drops, strength * count)).mean() for strength in STRENGTHS[::6]]
    found = Regression.ensemble(metrics, drops)
    assert found.mae <= min(errors) * (1 + 1e-6)
    tried = [Ridge(alpha=strength * count).fit(scaled, drops) for strength in STRENGTHS]
    near = min(tried, key=lambda model: np.abs(model.coef_ / metrics.std(axis=0) - found.slopes).max())
    np.testing.assert_allclose(found.slopes, near.coef_ / metrics.std(axis=0), rtol=1e-6, atol=1e-9)
    assert found.predict(metrics[0] * 2) == pytest.approx(near.predict(scaled[:1] * 2)[0], abs=1e-8)


@given(seed=SEEDS, scale=st.floats(1e-3, 1e3))
def test_the_ensemble_does_not_depend_on_units(seed: int, scale: float) -> None:
    """Metrics in other units or from another zero predict the same."""
    metrics, drops = domains(seed, 8, 3)
    first, second = Regression.ensemble(metrics, drops), Regression.ensemble(metrics * scale + 1, drops)
    assert first.predict(metrics[2] * 1.5) == pytest.approx(second.predict(metrics[2] * 1.5 * scale + 1), abs=1e-6)


@given(seed=SEEDS, count=st.integers(4, 12))
def test_metrics_that_say_the_same_share_the_slope(seed: int, count: int) -> None:
    """A metric beside its own copy, moved, predicts what it does alone, without a ridge too."""
    metrics, drops = domains(seed, count)
    metric = metrics[:, 0] / metrics[:, 0].std()
    both = Regression.least_squares(np.column_stack([metric, metric + 0.3]), drops)
    alone = Regression.line(metric, drops)
    assert both.predict(np.array([1.0, 1.3])) == pytest.approx(alone.predict(np.array([1.0])), abs=1e-6)
    np.testing.assert_allclose(both.residuals, alone.residuals, rtol=1e-4, atol=1e-6)


def test_domains_that_decide_alone_have_no_residual() -> None:
    """One domain, both of two, and the only one that moves a metric have NaN; the others keep their residual."""
    assert math.isnan(Regression.mean(np.array([0.1])).mae)
    assert np.isnan(Regression.line(np.array([0.0, 1.0]), np.array([0.1, 0.2])).residuals).all()
    alone = Regression.line(np.array([0.0, 0.0, 1.0, 0.0]), np.array([0.1, 0.2, 0.9, 0.3]))
    np.testing.assert_array_equal(np.isnan(alone.residuals), [False, False, True, False])
    assert math.isnan(alone.worst)


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_domains_have_an_ensemble(count: int) -> None:
    """The ensemble of one domain is its drop; of two it predicts something finite."""
    metrics, drops = np.random.default_rng(1).normal(size=(count, 4)), np.array([0.1, 0.3])[:count]
    found = Regression.ensemble(metrics, drops).predict(np.ones(4))
    assert found == pytest.approx(0.1) if count == 1 else math.isfinite(found)


def test_no_domains_no_regression() -> None:
    """Without domains each regression says so."""
    for fit in (
        lambda: Regression.mean(np.empty(0)),
        lambda: Regression.line(np.empty(0), np.empty(0)),
        lambda: Regression.ensemble(np.empty((0, 3)), np.empty(0)),
    ):
        with pytest.raises(FitError, match="no reference domains"):
            fit()


def test_a_regression_leaves_its_input_alone() -> None:
    """Neither metrics nor drops are written to."""
    metrics, drops = domains(2, 6, 3)
    copies = metrics.copy(), drops.copy()
    Regression.ensemble(metrics, drops)
    np.testing.assert_array_equal(metrics, copies[0])
    np.testing.assert_array_equal(drops, copies[1])

"""p-values and temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.calibration import INVERSE_TEMPERATURES, Temperature, fit_temperature, p_values
from detectors.contract import FitError, Outputs, Source
from detectors.table import DETECTORS

FINITE = st.floats(-1e6, 1e6)
SCORES = st.lists(FINITE, max_size=30)
TIED = st.lists(st.integers(0, 5).map(float), min_size=2, max_size=40)


def ascending(values: list[float]) -> np.ndarray:
    """The values as a sorted array."""
    return np.sort(np.array(values, float))


@given(scores=SCORES, validation=SCORES)
def test_a_p_value_counts_the_validation_scores_up_to_it(scores: list[float], validation: list[float]) -> None:
    """p(s) = (1 + #{v <= s}) / (m + 1), which lies in (0, 1]."""
    p = p_values(np.array(scores, float), ascending(validation))
    expected = [(1 + sum(v <= s for v in validation)) / (len(validation) + 1) for s in scores]
    np.testing.assert_allclose(p, np.array(expected, float), rtol=1e-15)
    assert ((p > 0) & (p <= 1)).all()


@given(scores=st.lists(FINITE | st.integers(0, 3).map(float), max_size=30), validation=TIED)
def test_a_p_value_grows_with_the_score(scores: list[float], validation: list[float]) -> None:
    """A higher score never gets a lower p-value, and equal scores get equal ones."""
    p = p_values(ascending(scores), ascending(validation))
    assert (np.diff(p) >= 0).all()


@given(pool=TIED)
def test_p_values_are_super_uniform_without_shift(pool: list[float]) -> None:
    """Of m + 1 exchangeable scores, each held against the others, at most k have p <= k / (m + 1)."""
    p = [p_values(np.array(pool[i : i + 1]), ascending(pool[:i] + pool[i + 1 :]))[0] for i in range(len(pool))]
    ranks = np.rint(np.array(p) * len(pool))
    for k in range(1, len(pool) + 1):
        assert (ranks <= k).sum() <= k


@given(pool=st.lists(FINITE, min_size=2, max_size=40, unique=True))
def test_p_values_are_uniform_where_nothing_ties(pool: list[float]) -> None:
    """Different exchangeable scores take each value 1 / (m + 1), ..., 1 once."""
    p = [p_values(np.array(pool[i : i + 1]), ascending(pool[:i] + pool[i + 1 :]))[0] for i in range(len(pool))]
    np.testing.assert_allclose(sorted(p), np.arange(1, len(pool) + 1) / len(pool))


@given(pool=TIED)
def test_an_increasing_change_of_scale_changes_no_p_value(pool: list[float]) -> None:
    """Only the order of the scores counts."""
    values = np.array(pool)
    np.testing.assert_array_equal(
        p_values(np.exp(values), np.sort(np.exp(values))), p_values(values, np.sort(values))
    )


def test_a_score_equal_to_all_others_is_no_alarm() -> None:
    """Where every score ties, p is 1; below them all it is 1 / (m + 1)."""
    same = np.full(19, 0.7)
    np.testing.assert_allclose(p_values(np.array([0.7, 0.6]), same), [1.0, 0.05])


@pytest.mark.parametrize("name", DETECTORS)
def test_known_items_are_rarely_flagged_and_unknown_ones_often(
    name: str, source: Source, inside: Outputs, outside: Outputs
) -> None:
    """On every detector's scale p-values average about a half for known items and near 0 for unknown ones."""
    fitted = DETECTORS[name].fit(source)
    validation = np.sort(fitted.score(source.validation))
    assert 0.4 < p_values(fitted.score(inside), validation).mean() < 0.6
    assert p_values(fitted.score(outside), validation).mean() < 0.05


def sampled(temperature: float, rows: int = 20_000, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels drawn from their softmax at a temperature."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (rows, classes))
    noise = rng.gumbel(size=logits.shape)  # its argmax with the logits is a draw from their softmax
    return logits, (logits / temperature + noise).argmax(axis=1)


def likelihood_loss(logits: np.ndarray, labels: np.ndarray, beta: float) -> float:
    """Mean negative log-likelihood at an inverse temperature."""
    scaled = logits * beta
    chosen = scaled[np.arange(len(labels)), labels]
    return float((np.log(np.exp(scaled).sum(axis=1)) - chosen).mean())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7, 4.0])
def test_a_known_temperature_is_recovered(temperature: float) -> None:
    """On labels drawn from softmax(z / T), T comes back within 5 %."""
    found = fit_temperature(*sampled(temperature))
    assert found.value == pytest.approx(temperature, rel=0.05)
    assert not found.bounded


@pytest.mark.parametrize("temperature", [0.5, 1.7])
def test_the_likelihood_is_level_at_the_temperature_found(temperature: float) -> None:
    """The numerical gradient of the loss in beta vanishes there, and both sides are worse."""
    logits, labels = sampled(temperature, rows=500)
    beta, step = 1 / fit_temperature(logits, labels).value, 1e-4
    below, here, above = (likelihood_loss(logits, labels, beta + side * step) for side in (-1, 0, 1))
    assert abs(above - below) / (2 * step) < 1e-6
    assert here < min(below, above)


@given(seed=st.integers(0, 1000), factor=st.floats(0.5, 2))
def test_scaled_logits_scale_the_temperature(seed: int, factor: float) -> None:
    """Logits multiplied by a factor have their temperature multiplied by it."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (200, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    one, other = fit_temperature(logits, labels), fit_temperature(logits * factor, labels)
    assert other.value == pytest.approx(one.value * factor, rel=1e-9)


def test_the_order_of_rows_and_classes_is_no_evidence() -> None:
    """Permuted rows, and permuted classes with their labels renamed, give the same temperature."""
    logits, labels = sampled(1.7, rows=500)
    found = fit_temperature(logits, labels).value
    rows = np.random.default_rng(1).permutation(len(labels))
    classes = np.array([2, 0, 3, 1])
    assert fit_temperature(logits[rows], labels[rows]).value == pytest.approx(found, rel=1e-9)
    renamed = np.argsort(classes)[labels]
    assert fit_temperature(logits[:, classes], renamed).value == pytest.approx(found, rel=1e-9)


def test_a_constant_added_to_a_row_is_no_evidence() -> None:
    """Softmax does not see a common shift of a row's logits, and neither does the temperature."""
    logits, labels = sampled(1.7, rows=500)
    shifted = logits + np.random.default_rng(1).normal(0, 50, (500, 1))
    found = fit_temperature(logits, labels).value
    assert fit_temperature(shifted, labels).value == pytest.approx(found, rel=1e-9)


def test_a_search_that_stops_at_a_bound_says_so() -> None:
    """A model that is always right, always wrong or says nothing has no temperature inside the bounds."""
    coldest, hottest = 1 / INVERSE_TEMPERATURES[1], 1 / INVERSE_TEMPERATURES[0]
    logits = np.array([[3.0, 0.0], [0.0, 5.0]])
    assert fit_temperature(logits, np.array([0, 1])) == Temperature(coldest, bounded=True)
    assert fit_temperature(logits, np.array([1, 0])) == Temperature(hottest, bounded=True)
    assert fit_temperature(np.zeros((2, 2)), np.array([1, 0])) == Temperature(hottest, bounded=True)


def test_no_labels_no_temperature() -> None:
    """Without a labelled row the fit is refused."""
    with pytest.raises(FitError, match="no labelled rows"):
        fit_temperature(np.zeros((0, 2)), np.zeros(0, int))

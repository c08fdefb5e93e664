"""Least-squares heads from sums, held against scikit-learn's ridge regression on the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from detectors.contract import FitError, Head
from detectors.least_squares import Moments, accuracy, predicted, with_one

SEEDS = st.integers(0, 2**32 - 1)


def rows_of(seed: int, rows: int = 60, width: int = 5, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Random features off the origin and class indices."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 1, (rows, width)), rng.integers(0, classes, rows)


def same(first: Moments, second: Moments) -> None:
    """Both sums agree but for rounding."""
    np.testing.assert_allclose(first.gram, second.gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first.cross, second.cross, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strength", [1e-6, 1e-3, 1.0])
def test_a_head_is_a_ridge_regression_on_one_hot_labels(strength: float) -> None:
    """The head equals scikit-learn's with `strength` times the summed mean square, its bias not penalised."""
    features, labels = rows_of(1)
    head = Moments.of_labels(features, labels, 3).head(strength)
    ridge = Ridge(alpha=strength * np.square(features).sum() / features.shape[1]).fit(features, np.eye(3)[labels])
    np.testing.assert_allclose(head.weight, ridge.coef_, atol=1e-10)
    np.testing.assert_allclose(head.bias, ridge.intercept_, atol=1e-10)


@given(seed=SEEDS, cut=st.integers(0, 60))
def test_sums_of_parts_add_up_and_subtract(seed: int, cut: int) -> None:
    """The sums over two parts are those over all rows, and taking a part away leaves the other."""
    features, labels = rows_of(seed)
    whole = Moments.of_labels(features, labels, 3)
    first = Moments.of_labels(features[:cut], labels[:cut], 3)
    second = Moments.of_labels(features[cut:], labels[cut:], 3)
    same(first + second, whole)
    same(whole - first, second)
    assert (whole - first).rows == pytest.approx(60 - cut)


@given(seed=SEEDS, cut=st.integers(1, 50))
def test_leaving_a_fold_out_by_subtraction_is_training_without_it(seed: int, cut: int) -> None:
    """A head from subtracted sums equals one trained on the rows that remain."""
    features, labels = rows_of(seed)
    left = (Moments.of_labels(features, labels, 3) - Moments.of_labels(features[:cut], labels[:cut], 3)).head()
    trained = Moments.of_labels(features[cut:], labels[cut:], 3).head()
    np.testing.assert_allclose(left.weight, trained.weight, atol=1e-7)
    np.testing.assert_allclose(left.bias, trained.bias, atol=1e-7)


@given(seed=SEEDS, times=st.integers(1, 5))
def test_a_weight_counts_rows_so_many_times(seed: int, times: int) -> None:
    """Scaled sums are those of repeated rows, and a common weight changes no head."""
    features, labels = rows_of(seed)
    moments = Moments.of_labels(features, labels, 3)
    same(moments.scaled(times), Moments.of_labels(np.tile(features, (times, 1)), np.tile(labels, times), 3))
    np.testing.assert_allclose(moments.scaled(times).head().weight, moments.head().weight, atol=1e-9)


def test_outputs_of_a_head_on_labels_sum_to_one() -> None:
    """One-hot targets sum to 1, so do their linear estimates; a class without rows is estimated as 0."""
    features, labels = rows_of(2)
    outputs = Moments.of_labels(features, labels, 4).head().logits(features)
    np.testing.assert_allclose(outputs.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(outputs[:, 3], 0, atol=1e-12)


def test_no_rows_no_head() -> None:
    """Without rows, or with all of them subtracted, there is no head."""
    moments = Moments.of_labels(*rows_of(3), 3)
    for empty in (Moments.of_labels(np.zeros((0, 5)), np.zeros(0, int), 3), moments - moments):
        with pytest.raises(FitError, match="no rows"):
            empty.head()


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_fewer_rows_than_features_have_a_head(rows: int) -> None:
    """The ridge makes the system solvable, and the head fits the few rows."""
    features, _ = rows_of(4, rows=rows, width=30)
    labels = np.arange(rows) % 3
    assert accuracy(Moments.of_labels(features, labels, 3).head(), features, labels) == 1.0


def test_predictions_and_accuracy_by_hand() -> None:
    """The largest output is the class predicted, the first of equals; no rows have no accuracy."""
    head = Head(np.array([[1.0], [-1.0]]), np.zeros(2))
    features = np.array([[2.0], [-2.0], [0.0]])
    np.testing.assert_array_equal(predicted(head, features), [0, 1, 0])
    assert accuracy(head, features, np.array([0, 0, 0])) == pytest.approx(2 / 3)
    assert math.isnan(accuracy(head, features[:0], np.zeros(0, int)))


def test_features_get_a_trailing_one() -> None:
    """Float32 features come back in float64 with a column of ones, unchanged themselves."""
    features = np.array([[2.0, 3.0]], np.float32)
    widened = with_one(features)
    np.testing.assert_array_equal(widened, [[2.0, 3.0, 1.0]])
    assert widened.dtype == np.float64

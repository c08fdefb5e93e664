"""Shift metrics, held against their definitions and against scikit-learn's classifiers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from detectors.least_squares import Moments, accuracy
from detectors.shift import RIDGE, ReverseClassifier, class_shift, confidence_drop, pad

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any)
CONFIDENCE = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def embeddings(rng: np.random.Generator, rows: int, offset: float = 0.0) -> np.ndarray:
    """Unit float32 rows whose variance falls from axis to axis, as an encoder's does, `offset` along ten axes."""
    deviation = 1 / np.sqrt(1 + np.arange(64.0))
    values = rng.normal(size=(rows, 64)) * deviation + 0.5
    values[:, :10] += offset * deviation[:10]
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def cross_validated(model: object, source: np.ndarray, target: np.ndarray) -> float:
    """2 acc - 1 of a scikit-learn classifier over the same folds, on as many rows of either side."""
    rows = min(len(source), len(target))
    fold = np.tile(np.arange(rows) % 5, 2)
    both = np.concatenate([source[:rows], target[:rows]])
    side = np.repeat([0, 1], rows)
    hits = [
        (model.fit(both[fold != k], side[fold != k]).predict(both[fold == k]) == side[fold == k]).sum()
        for k in range(5)
    ]
    return 2 * sum(hits) / len(both) - 1


@pytest.mark.parametrize("offset", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("model", [LogisticRegression(C=10.0), RidgeClassifier(alpha=5.0)])
def test_pad_agrees_with_a_trained_domain_classifier(model: object, offset: float) -> None:
    """On gaussians of an encoder's spectrum PAD lies within 0.05 of scikit-learn's classifiers."""
    rng = np.random.default_rng(4)
    source, target = embeddings(rng, 900), embeddings(rng, 1000, offset)
    assert pad(source, target) == pytest.approx(cross_validated(model, source, target), abs=0.05)


def test_pad_does_not_dip_where_rows_are_as_many_as_features() -> None:
    """With 64 training rows for 64 features PAD agrees with a logistic regression, as it does with more."""
    rng = np.random.default_rng(3)
    pairs = [(embeddings(rng, 40), embeddings(rng, 40, 1.0)) for _ in range(20)]
    trained = [cross_validated(LogisticRegression(C=10.0), *pair) for pair in pairs]
    assert np.mean([pad(*pair) for pair in pairs]) == pytest.approx(np.mean(trained), abs=0.05)


def test_pad_grows_with_the_distance() -> None:
    """Moving the target away from the source raises PAD from about 0 to nearly 1."""
    rng = np.random.default_rng(5)
    source = embeddings(rng, 1000)
    values = [pad(source, embeddings(rng, 1000, offset)) for offset in (0.0, 0.3, 0.6, 3.0)]
    assert values == sorted(values)
    assert abs(values[0]) < 0.1
    assert values[-1] > 0.9


def test_samples_of_one_distribution_are_not_told_apart() -> None:
    """Over many pairs of samples from one distribution PAD averages 0."""
    rng = np.random.default_rng(6)
    values = [pad(embeddings(rng, 200), embeddings(rng, 200)) for _ in range(40)]
    assert np.mean(values) == pytest.approx(0, abs=4 * np.std(values) / math.sqrt(40))
    assert np.abs(values).max() < 0.3


def test_separable_samples_have_pad_one() -> None:
    """Where one feature tells the sides apart, PAD is 1 exactly."""
    rng = np.random.default_rng(7)
    source, target = embeddings(rng, 100), embeddings(rng, 100)
    source[:, 3], target[:, 3] = -1, 1
    assert pad(source, target) == 1.0


def test_pad_by_hand() -> None:
    """On a line whose last row lies beyond the other side, two folds get 6 and 4 of 6 rows right: PAD 2/3."""
    source = np.array([[-2.0]] * 5 + [[2.0]])
    assert pad(source, -source, folds=2) == pytest.approx(2 / 3)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e6, 1e-200])
def test_a_constant_embedding_tells_nothing(value: float) -> None:
    """Where all rows are alike the classifier cannot decide, and PAD is 0."""
    assert pad(np.full((50, 8), value), np.full((60, 8), value)) == pytest.approx(0, abs=1e-12)


def test_the_same_sample_twice_is_no_shift() -> None:
    """A sample against itself has PAD 0: every direction carries as much of either side."""
    sample = embeddings(np.random.default_rng(8), 50)
    assert pad(sample, sample.copy()) == 0.0


def test_duplicated_rows_are_harmless() -> None:
    """Two points, each repeated, are told apart perfectly, or not at all where the sides share them."""
    low, high = np.zeros((30, 4)), np.ones((30, 4))
    mixed = np.concatenate([low[:15], high[:15]])
    assert pad(low, high) == 1.0
    assert pad(mixed, mixed) == 0.0


@pytest.mark.parametrize(("source", "target"), [(0, 0), (1, 1), (9, 200), (200, 9), (0, 50)])
def test_too_few_rows_have_no_pad(source: int, target: int) -> None:
    """With fewer than two rows a fold on either side PAD is NaN, and warns of nothing."""
    rng = np.random.default_rng(9)
    assert math.isnan(pad(embeddings(rng, source), embeddings(rng, target)))
    assert not math.isnan(pad(embeddings(rng, 10), embeddings(rng, 10)))


def test_pad_is_balanced() -> None:
    """Rows of the larger sample beyond the smaller one's number change nothing."""
    rng = np.random.default_rng(10)
    source, target = embeddings(rng, 80), embeddings(rng, 500, 0.5)
    assert pad(source, target) == pad(source, target[:80])
    assert pad(target, source) == pad(target[:80], source)


@given(seed=SEEDS, rows=st.integers(10, 40), width=st.integers(1, 20))
def test_pad_does_not_depend_on_the_frame(seed: int, rows: int, width: int) -> None:
    """PAD lies in [-1, 1] and ignores swapping the sides, moving both and scaling both."""
    rng = np.random.default_rng(seed)
    source, target = rng.normal(size=(rows, width)), rng.normal(0.5, 1, (rows, width))
    value = pad(source, target)
    assert -1 <= value <= 1
    assert pad(target, source) == value
    assert pad(source + 3.0, target + 3.0) == value
    assert pad(source * 8, target * 8) == value


def test_pad_leaves_its_input_alone() -> None:
    """Neither sample is written to."""
    rng = np.random.default_rng(11)
    source, target = embeddings(rng, 20).astype(np.float64), embeddings(rng, 20).astype(np.float64)
    copies = source.copy(), target.copy()
    pad(source, target)
    np.testing.assert_array_equal((source, target), copies)


def task(rng: np.random.Generator, rows: int, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of three classes moved along the first axis, their labels, and an unmoved model's predictions."""
    labels = rng.integers(0, 3, rows)
    centres = np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])
    plane = centres[labels] + rng.normal(0, 0.4, (rows, 2)) + [offset, 0.0]
    return np.concatenate([plane, rng.normal(size=(rows, 3))], axis=1), labels, (plane @ centres.T).argmax(axis=1)


@given(seed=SEEDS, rows=st.integers(10, 80), offset=st.floats(-3, 3))
def test_rca_and_rca_star_differ_by_a_constant(seed: int, rows: int, offset: float) -> None:
    """For one source RCA - RCA* is the same for every target, so a regression on either predicts the same."""
    rng = np.random.default_rng(seed)
    source = ReverseClassifier.fit(*task(rng, 120), classes=3)
    features, _, predictions = task(rng, rows, offset)
    shift = source.against(features, predictions)
    if len(set(predictions[: source.rows])) > 1:
        constant = source.model_accuracy - source.head_accuracy
        assert shift.rca - shift.rca_star == pytest.approx(constant, abs=1e-12)
        assert max(abs(shift.rca), abs(shift.rca_star)) <= 1


def test_rca_compares_three_classifiers_on_the_same_rows() -> None:
    """RCA and RCA* equal accuracies on the odd rows of C, C' (taught by even ones) and C^ (by the target)."""
    rng = np.random.default_rng(12)
    features, labels, predictions = task(rng, 201)
    there, _, predicted = task(rng, 300, offset=0.9)
    judged, truth = features[1::2], labels[1::2]
    own = accuracy(Moments.of_labels(features[::2], predictions[::2], 3).head(RIDGE), judged, truth)
    learnt = accuracy(Moments.of_labels(there[:101], predicted[:101], 3).head(RIDGE), judged, truth)
    shift = ReverseClassifier.fit(features, labels, predictions, 3).against(there, predicted)
    assert shift.rca == pytest.approx(np.mean(predictions[1::2] == truth) - learnt)
    assert shift.rca_star == pytest.approx(own - learnt)


def test_rca_star_grows_with_the_shift() -> None:
    """RCA* is about 0 for another sample of the source, and grows as the target leaves the borders of classes."""
    rng = np.random.default_rng(13)
    source = ReverseClassifier.fit(*task(rng, 2000), classes=3)
    values = [
        source.against(features, predictions).rca_star
        for features, _, predictions in (task(rng, 1000, offset) for offset in (0.0, 1.0, 2.0))
    ]
    assert values[0] == pytest.approx(0, abs=0.02)
    assert values == sorted(values)
    assert values[2] > 0.1


def test_both_heads_learn_from_as_many_rows() -> None:
    """`rows` bounds the rows of C' and C^ alike; a source of few rows is used whole."""
    rng = np.random.default_rng(14)
    features, labels, predictions = task(rng, 200)
    there, _, predicted = task(rng, 150, offset=0.5)
    bounded = ReverseClassifier.fit(features, labels, predictions, 3, rows=40)
    assert bounded.rows == 40
    assert bounded.against(there, predicted) == bounded.against(there[:40], predicted[:40])
    short = ReverseClassifier.fit(features[:79], labels[:79], predictions[:79], 3)
    np.testing.assert_array_equal(short.features, features[1:79:2])
    assert short.rows == 40
    assert ReverseClassifier.fit(features, labels, predictions, 3, rows=1000).rows == 100


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_predictions_of_one_class_teach_nothing(rows: int) -> None:
    """A target of one predicted class, as an empty one or one row, has NaN for both metrics."""
    rng = np.random.default_rng(15)
    source = ReverseClassifier.fit(*task(rng, 100), classes=3)
    shift = source.against(rng.normal(size=(rows, 5)), np.full(rows, 1))
    assert math.isnan(shift.rca)
    assert math.isnan(shift.rca_star)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_source_without_a_row_to_judge_on_has_no_metric(rows: int) -> None:
    """A held-out sample of less than two rows gives NaN, and warns of nothing."""
    rng = np.random.default_rng(16)
    features, labels, predictions = task(rng, 60)
    source = ReverseClassifier.fit(features[:rows], labels[:rows], predictions[:rows], 3, rows=50)
    shift = source.against(features, predictions)
    assert math.isnan(shift.rca)
    assert math.isnan(shift.rca_star)


def test_a_source_of_one_predicted_class_has_rca_only() -> None:
    """Where C' had nothing to learn RCA* is NaN; RCA, which needs no C', stays."""
    rng = np.random.default_rng(17)
    features, labels, predictions = task(rng, 60)
    source = ReverseClassifier.fit(features, labels, np.zeros(60, int), 3)
    shift = source.against(features, predictions)
    assert math.isnan(shift.rca_star)
    assert -1 <= shift.rca <= 1


def test_a_class_the_target_lacks_is_never_predicted() -> None:
    """With pseudo-labels 0 and 2 of three classes, C^ misses every source row of class 1."""
    rng = np.random.default_rng(18)
    features, labels, predictions = task(rng, 300)
    kept = predictions != 1
    shift = ReverseClassifier.fit(features, labels, predictions, 3).against(features[kept], predictions[kept])
    assert shift.rca >= np.mean(predictions[1::2] == labels[1::2]) - np.mean(labels[1::2] != 1)


@given(source=CONFIDENCE, target=CONFIDENCE)
def test_the_confidence_drop_is_a_difference_of_means(source: list[float], target: list[float]) -> None:
    """CONF is mean source minus mean target confidence, and changes its sign when they change places."""
    drop = confidence_drop(np.array(source), np.array(target))
    assert drop == pytest.approx(sum(source) / len(source) - sum(target) / len(target), abs=1e-12)
    assert confidence_drop(np.array(target), np.array(source)) == -drop


@pytest.mark.parametrize(("source", "target"), [(0, 0), (0, 3), (3, 0)])
def test_no_confidence_no_drop(source: int, target: int) -> None:
    """With either side empty the drop is NaN, and warns of nothing."""
    assert math.isnan(confidence_drop(np.ones(source), np.ones(target)))


@given(source=COUNTS, target=COUNTS)
def test_class_shift_is_the_largest_difference_over_sets_of_classes(source: list[int], target: list[int]) -> None:
    """Total variation is max |P(A) - Q(A)| over sets A of classes; it is symmetric and within [0, 1]."""
    p, q = np.array(source) / sum(source), np.array(target) / sum(target)
    sets = [[bool(bits >> k & 1) for k in range(3)] for bits in range(8)]
    value = class_shift(np.array(source), np.array(target))
    assert value == pytest.approx(max(abs(p[chosen].sum() - q[chosen].sum()) for chosen in sets), abs=1e-12)
    assert class_shift(np.array(target), np.array(source)) == value
    assert 0 <= value <= 1 + 1e-12


def test_class_shift_spans_none_to_all() -> None:
    """The same shares give 0, disjoint classes 1, and no counts NaN."""
    assert class_shift(np.array([2, 4]), np.array([1, 2])) == 0
    assert class_shift(np.array([5, 0]), np.array([0, 1])) == 1
    assert math.isnan(class_shift(np.zeros(2, int), np.array([1, 1])))
    assert math.isnan(class_shift(np.array([1, 1]), np.zeros(2, int)))

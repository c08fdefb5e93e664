"""Label-free accuracy estimates, held against brute force, simulation and their definitions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

from detectors.contract import FitError
from detectors.label_free import AverageThreshold, cbpe, certainty, cot, doc, mano
from detectors.softmax import probabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    Estimate = Callable[[np.ndarray], float]

SEEDS = st.integers(0, 2**32 - 1)
SCORED = st.lists(st.tuples(st.integers(0, 6).map(float), st.booleans()), min_size=1, max_size=40)


def outputs(seed: int, rows: int, classes: int, scale: float = 2.0) -> np.ndarray:
    """(rows, classes) random logits."""
    return np.random.default_rng(seed).normal(0, scale, (rows, classes))


def drawn(logits: np.ndarray, seed: int = 0) -> np.ndarray:
    """A label for each row, drawn from its own softmax: a world in which the model is calibrated."""
    share = probabilities(logits).cumsum(axis=1)
    return (np.random.default_rng(seed).random((len(logits), 1)) > share).sum(axis=1)


def transport(probability: np.ndarray, share: np.ndarray) -> float:
    """1 - W by the transport problem written out as a linear program, with cost max|p - e_k|."""
    rows, classes = probability.shape
    cost = np.abs(probability[:, np.newaxis] - np.eye(classes)).max(axis=2)
    leaves, arrives = np.zeros((rows, rows, classes)), np.zeros((classes, rows, classes))
    for row in range(rows):
        leaves[row, row] = 1
    for label in range(classes):
        arrives[label, :, label] = 1
    constraints = np.concatenate([leaves, arrives]).reshape(rows + classes, -1)
    bounds = np.concatenate([np.full(rows, 1 / rows), share])
    return 1 - linprog(cost.ravel(), A_eq=constraints, b_eq=bounds).fun


ESTIMATES: dict[str, Estimate] = {
    "cbpe": lambda logits: cbpe(probabilities(logits).max(axis=1)),
    "doc": lambda logits: doc(0.9, np.array([0.8, 0.9]), probabilities(logits).max(axis=1)),
    "atc": lambda logits: AverageThreshold(-0.5, 0.5).accuracy(certainty(logits)),
    "cot": lambda logits: cot(probabilities(logits), np.array([3, 2, 1])),
    "mano": mano,
}


@pytest.mark.parametrize("name", ESTIMATES)
@given(seed=SEEDS, rows=st.integers(1, 30))
def test_an_estimate_lies_in_the_unit_interval_and_ignores_the_order(name: str, seed: int, rows: int) -> None:
    """Every estimate is in [0, 1], and the same for the same rows in another order."""
    logits = outputs(seed, rows, 3)
    value = ESTIMATES[name](logits)
    assert -1e-12 <= value <= 1 + 1e-12
    shuffled = logits[np.random.default_rng(seed).permutation(rows)]
    assert ESTIMATES[name](shuffled) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("name", ESTIMATES)
def test_no_rows_no_estimate(name: str) -> None:
    """Without a row every estimate is NaN, and warns of nothing."""
    assert math.isnan(ESTIMATES[name](np.zeros((0, 3))))


@pytest.mark.parametrize("name", ESTIMATES)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_repeated_row_counts_as_one(name: str, rows: int) -> None:
    """Doubling a target row by row changes no estimate."""
    logits = outputs(3, 6 * rows, 3)
    assert ESTIMATES[name](np.tile(logits, (2, 1))) == pytest.approx(ESTIMATES[name](logits), abs=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_cbpe_is_right_where_confidence_is_calibrated(classes: int) -> None:
    """Labels drawn from the model's own probabilities give the accuracy that CBPE expects."""
    logits = outputs(classes, 20_000, classes)
    actual = np.mean(logits.argmax(axis=1) == drawn(logits))
    assert cbpe(probabilities(logits).max(axis=1)) == pytest.approx(actual, abs=0.01)


def test_cbpe_is_a_mean() -> None:
    """Items of 0.6 and 0.9 are expected to be right three times in four."""
    assert cbpe(np.array([0.6, 0.9])) == pytest.approx(0.75)


def test_doc_takes_the_confidence_lost_off_the_source_accuracy() -> None:
    """A mean confidence of 0.8 after 0.9 costs a tenth, and no accuracy leaves [0, 1]."""
    assert doc(0.85, np.array([0.9, 0.9]), np.array([0.7, 0.9])) == pytest.approx(0.75)
    assert doc(0.98, np.array([0.5]), np.array([0.9])) == 1.0
    assert doc(0.1, np.array([0.9]), np.array([0.5])) == 0.0
    assert math.isnan(doc(0.9, np.zeros(0), np.array([0.5])))
    assert math.isnan(doc(math.nan, np.array([0.5]), np.array([0.5])))


@given(source=SCORED)
def test_the_threshold_recovers_the_source_accuracy(source: list[tuple[float, bool]]) -> None:
    """On the source itself the estimate is exactly the source accuracy, however many scores tie."""
    scores, right = np.array([s for s, _ in source]), np.array([hit for _, hit in source])
    assert AverageThreshold.fit(scores, right).accuracy(scores) == pytest.approx(right.mean(), abs=1e-12)


@given(source=SCORED, target=st.lists(st.integers(-1, 7).map(float), min_size=1, max_size=20))
def test_the_threshold_counts_the_certain_ones(source: list[tuple[float, bool]], target: list[float]) -> None:
    """The estimate is the share above the threshold, plus a credit in [0, 1] for each at it."""
    scores, right = np.array([s for s, _ in source]), np.array([hit for _, hit in source])
    fitted = AverageThreshold.fit(scores, right)
    assert 0 <= fitted.credit <= 1
    expected = sum(1.0 if s > fitted.threshold else fitted.credit * (s == fitted.threshold) for s in target)
    assert fitted.accuracy(np.array(target)) == pytest.approx(expected / len(target), abs=1e-12)


def test_the_threshold_by_hand() -> None:
    """Three of four right: the threshold is the third largest score, which counts fully where it is alone."""
    fitted = AverageThreshold.fit(np.array([0.1, 0.6, 0.7, 0.9]), np.array([True, False, True, True]))
    assert fitted == AverageThreshold(0.6, 1.0)
    assert fitted.accuracy(np.array([0.55, 0.6, 0.99, 0.2])) == 0.5


def test_tied_scores_share_the_credit() -> None:
    """Where half of a source with one score is right, half of the items with that score count."""
    fitted = AverageThreshold.fit(np.full(4, 0.7), np.array([True, False, True, False]))
    assert fitted.accuracy(np.full(3, 0.7)) == 0.5
    assert fitted.accuracy(np.array([0.8, 0.6])) == 0.5


def test_a_source_all_wrong_or_all_right_has_a_threshold() -> None:
    """All right puts the threshold at the least source score, all wrong beyond the largest."""
    scores = np.array([0.3, 0.5])
    assert AverageThreshold.fit(scores, np.ones(2, bool)).accuracy(np.array([0.3, 0.2])) == 0.5
    assert AverageThreshold.fit(scores, np.zeros(2, bool)).accuracy(np.array([0.5, 0.6])) == 0.5


def test_no_source_rows_no_threshold() -> None:
    """Without a labelled row the fit is refused."""
    with pytest.raises(FitError, match="no labelled rows"):
        AverageThreshold.fit(np.zeros(0), np.zeros(0, bool))


def test_certainty_by_hand() -> None:
    """Two equal logits have negative entropy -ln 2 and largest probability 1/2; a sure row has 0 and 1."""
    logits = np.array([[1.0, 1.0], [800.0, 0.0]])
    np.testing.assert_allclose(certainty(logits), [-math.log(2), 0], atol=1e-12)
    np.testing.assert_allclose(certainty(logits, "mc"), [0.5, 1], atol=1e-12)


@given(seed=SEEDS)
def test_with_two_classes_both_certainties_rank_alike(seed: int) -> None:
    """For two classes the threshold on either certainty gives the same estimate."""
    source, target = outputs(seed, 30, 2), outputs(seed + 1, 20, 2)
    right = drawn(source) == source.argmax(axis=1)
    first, second = (
        AverageThreshold.fit(certainty(source, kind), right).accuracy(certainty(target, kind))
        for kind in ("ne", "mc")
    )
    assert first == second


@given(seed=SEEDS, rows=st.integers(1, 12), counts=st.lists(st.integers(0, 9), min_size=2, max_size=2).filter(any))
def test_cot_of_two_classes_is_the_optimal_transport(seed: int, rows: int, counts: list[int]) -> None:
    """For two classes, any share of each, COT equals the transport problem's linear program."""
    probability = probabilities(outputs(seed, rows, 2))
    share = np.array(counts) / sum(counts)
    assert cot(probability, np.array(counts)) == pytest.approx(transport(probability, share), abs=1e-7)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_cot_with_as_many_labels_as_rows_is_the_best_assignment(classes: int, seed: int) -> None:
    """With n labels for n rows COT equals the assignment of rows to labels, and the linear program."""
    probability = probabilities(outputs(seed, 14, classes))
    labels = np.random.default_rng(seed).integers(0, classes, 14)
    counts = np.bincount(labels, minlength=classes)
    cost = np.abs(probability[:, np.newaxis] - np.eye(classes)[labels]).sum(axis=2) / 2
    best = 1 - cost[linear_sum_assignment(cost)].mean()
    assert cot(probability, counts) == pytest.approx(best, abs=1e-12)
    assert cot(probability, 7 * counts) == pytest.approx(best, abs=1e-12)
    assert transport(probability, counts / 14) == pytest.approx(best, abs=1e-7)


@given(seed=SEEDS, rows=st.integers(1, 10), counts=st.lists(st.integers(0, 9), min_size=3, max_size=4).filter(any))
def test_cot_rounds_shares_by_less_than_it_says(seed: int, rows: int, counts: list[int]) -> None:
    """Where the labels' shares are no whole items, COT is within C / (4 n) of the linear program."""
    probability = probabilities(outputs(seed, rows, len(counts)))
    exact = transport(probability, np.array(counts) / sum(counts))
    assert abs(cot(probability, np.array(counts)) - exact) <= len(counts) / (4 * rows) + 1e-7


@given(seed=SEEDS, rows=st.integers(1, 20), classes=st.integers(2, 4))
def test_cot_is_the_mean_confidence_where_predictions_fit_the_labels(seed: int, rows: int, classes: int) -> None:
    """COT is at most CBPE, and equals it where the predicted classes have the labels' shares."""
    probability = probabilities(outputs(seed, rows, classes))
    confidence = cbpe(probability.max(axis=1))
    predicted = np.bincount(probability.argmax(axis=1), minlength=classes)
    assert cot(probability, predicted) == pytest.approx(confidence, abs=1e-12)
    assert cot(probability, np.arange(classes) + 1) <= confidence + 1e-12


def test_cot_by_hand() -> None:
    """Of three rows sure of class 0, a source with a third of class 1 takes the least sure one over."""
    probability = np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2]])
    assert cot(probability, np.array([2, 1])) == pytest.approx((1.0 + 0.9 + 0.2) / 3)
    assert cot(probability, np.array([0, 8])) == pytest.approx(0.1)
    assert math.isnan(cot(probability, np.zeros(2, int)))


def test_mano_by_hand() -> None:
    """Rows (0, 0) and (1, 0) have v = (1, 1) and (2.5, 1) by truncation, (1, 1) and (e, 1) by softmax."""
    logits = np.array([[0.0, 0.0], [1.0, 0.0]])
    truncated = (2 * 0.5**4 + (2.5 / 3.5) ** 4 + (1 / 3.5) ** 4) / 4
    assert mano(logits) == pytest.approx(truncated**0.25)
    sure = math.e / (math.e + 1)
    assert mano(logits, p=2, threshold=0) == pytest.approx(math.sqrt((0.5 + sure**2 + (1 - sure) ** 2) / 4))


def test_mano_takes_the_softmax_where_logits_are_far_from_uniform() -> None:
    """Phi is the mean of -log softmax; at margin 40 of two classes it is 20, and the score a one-hot's."""
    assert mano(np.array([[40.0, 0.0]])) == pytest.approx(0.5**0.25)
    assert mano(np.array([[40.0, 0.0]]), threshold=20.1) < 0.84
    assert mano(np.array([[5000.0, 0.0, 0.0]])) == pytest.approx((1 / 3) ** 0.25)


@given(seed=SEEDS, rows=st.integers(1, 20), classes=st.integers(2, 5), p=st.sampled_from([1, 2, 4, 8]))
def test_mano_lies_between_uniform_and_one_hot(seed: int, rows: int, classes: int, p: int) -> None:
    """The score is at least 1 / C, that of uniform rows, and at most (1 / C)^(1/p), that of one-hot rows."""
    score = mano(outputs(seed, rows, classes, scale=4.0), p=p)
    assert 1 / classes - 1e-12 <= score <= (1 / classes) ** (1 / p) + 1e-12
    assert mano(np.full((rows, classes), 0.3), p=p) == pytest.approx(1 / classes)


@given(seed=SEEDS, factor=st.floats(1.1, 5))
def test_mano_grows_with_confidence_under_the_softmax(seed: int, factor: float) -> None:
    """With the softmax, logits further apart raise the score."""
    logits = outputs(seed, 10, 3)
    assert mano(logits * factor, threshold=0) > mano(logits, threshold=0)


def test_mano_of_truncated_two_class_logits_is_not_monotone() -> None:
    """Beyond a logit of sqrt 2 the truncated form reads more margin as less confidence, as its docstring warns."""
    scores = [mano(np.array([[-z, z]]), threshold=99) for z in (0.5, math.sqrt(2), 5.0)]
    assert scores[0] < scores[1] > scores[2]

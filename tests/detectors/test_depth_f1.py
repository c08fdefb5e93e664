"""Depth F1, held against hand-computed values, scikit-learn and the paper's demonstration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from detectors.contract import FitError
from detectors.depth import depth_ranks
from detectors.depth_f1 import (
    PERCENTILES,
    Answers,
    DepthF1,
    depth_f1,
    depth_f1_curve,
    depth_weighted_quality,
    depth_weights,
    dissimilar,
    macro_f1,
    q_legacy,
)

# Four items at differences .5, .25, .25 and 0 from the deepest source item: weights 1/2, 1/4, 1/4 and 0.
REFERENCE = 1.5
DEPTHS = np.array([1.0, 1.25, 1.25, 1.5])
ANSWERS = Answers(np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1]), classes=2)

# (eighths of difference to the reference, label, prediction), which floats hold exactly
ITEMS = st.lists(st.tuples(st.integers(-3, 8), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30)


def columns(items: list[tuple[int, int, int]]) -> tuple[np.ndarray, Answers]:
    """The differences in eighths, and the answers."""
    differences, labels, predicted = np.array(items).T
    return differences, Answers(labels, predicted, classes=3)


def depths_at(percentiles_from_source: np.ndarray) -> np.ndarray:
    """Depths that fall as the percentile of dissimilarity rises."""
    return 1.4 - 0.5 * percentiles_from_source


def test_a_weight_is_the_share_of_all_distance_to_the_reference() -> None:
    """Weights are (D(s0) - D(t)) / sum."""
    weights = depth_weights(DEPTHS, REFERENCE)
    np.testing.assert_allclose(weights.values, [0.5, 0.25, 0.25, 0.0])
    assert weights.clipped == 0


def test_an_item_deeper_than_the_reference_weighs_nothing_and_is_counted() -> None:
    """Negative differences become 0; an item exactly as deep as the reference is not counted as clipped."""
    weights = depth_weights(np.array([1.0, 1.5, 1.75, 1.9]), REFERENCE)
    np.testing.assert_array_equal(weights.values, [1.0, 0.0, 0.0, 0.0])
    assert weights.clipped == 2


def test_the_published_code_lets_weights_be_negative() -> None:
    """`legacy` divides the bare differences to the median by their sum."""
    weights = depth_weights(np.array([0.5, 1.0, 1.75]), 1.25, legacy=True)
    np.testing.assert_allclose(weights.values, [1.5, 0.5, -1.0])
    assert weights.clipped == 0


@pytest.mark.parametrize("legacy", [False, True])
def test_no_weight_at_all_is_refused(*, legacy: bool) -> None:
    """Where the target lies no less deep than the reference there is nothing to weigh by."""
    with pytest.raises(FitError, match="sum to 0: the target lies no less deep"):
        depth_weights(np.array([1.5, 1.5]), REFERENCE, legacy=legacy)


def test_no_item_at_all_has_no_weights() -> None:
    """An empty target is refused as well."""
    with pytest.raises(FitError, match="sum to 0"):
        depth_weights(np.array([]), REFERENCE)


def test_depth_f1_by_hand() -> None:
    """Right are weights 1/2 and 1/4; F1 is 2*.5/(.5+.75) of class 0 and 2*.25/(.5+.25) of class 1."""
    measured = depth_f1(ANSWERS, DEPTHS, REFERENCE)
    assert measured.micro == pytest.approx(0.75)
    assert measured.macro == pytest.approx((0.8 + 2 / 3) / 2)
    assert (measured.items, measured.clipped) == (4, 0)


def test_legacy_depth_f1_by_hand() -> None:
    """Weights are .5/.25, 0, 0 and -.25/.25: the wrong item takes from the sum, and micro exceeds 1."""
    measured = depth_f1(ANSWERS, np.array([0.75, 1.25, 1.25, 1.5]), 1.25, legacy=True)
    assert measured.micro == pytest.approx(2.0)
    # class 0: 2 right, 2 - 1 true, 2 called; class 1: nothing right
    assert measured.macro == pytest.approx((2 * 2 / (1 + 2) + 0) / 2)


@given(items=ITEMS, percentile=st.sampled_from(PERCENTILES), factor=st.integers(1, 9))
def test_depth_f1_ignores_the_scale_of_the_differences(
    items: list[tuple[int, int, int]], percentile: float, factor: int
) -> None:
    """Differences some times as large give the same figures."""
    differences, answers = columns(items)
    assume((differences > 0).any())
    once, scaled = (depth_f1(answers, 1 - unit * differences / 8, 1.0, percentile) for unit in (1, factor))
    assert (once.items, once.clipped) == (scaled.items, scaled.clipped)
    assert once.micro == pytest.approx(scaled.micro, nan_ok=True)
    assert once.macro == pytest.approx(scaled.macro, nan_ok=True)


@given(items=ITEMS)
def test_depth_f1_is_scikit_learns_with_depths_as_sample_weights(items: list[tuple[int, int, int]]) -> None:
    """Micro and macro F1 equal f1_score(sample_weight=...), a class without weight scoring 0."""
    differences, answers = columns(items)
    assume((differences > 0).any())
    measured = depth_f1(answers, 1 - differences / 8, 1.0)
    expected = {
        average: f1_score(
            answers.labels,
            answers.predicted,
            labels=range(3),
            average=average,
            sample_weight=np.maximum(differences, 0),
            zero_division=0,
        )
        for average in ("micro", "macro")
    }
    assert measured.micro == pytest.approx(expected["micro"])
    assert measured.macro == pytest.approx(expected["macro"])
    assert measured.clipped == (differences < 0).sum()


@given(items=ITEMS)
def test_macro_f1_is_scikit_learns_over_all_classes(items: list[tuple[int, int, int]]) -> None:
    """Unweighted macro F1 counts a class that nobody names as 0."""
    _, answers = columns(items)
    expected = f1_score(answers.labels, answers.predicted, labels=range(3), average="macro", zero_division=0)
    assert macro_f1(answers.labels, answers.predicted, 3) == pytest.approx(expected)


def test_macro_f1_of_nothing_is_not_a_number() -> None:
    """Without items there is no F1."""
    nothing = np.array([], np.intp)
    assert math.isnan(macro_f1(nothing, nothing, 3))


@given(items=ITEMS, percentile=st.sampled_from(PERCENTILES))
def test_micro_is_the_depth_weighted_share_of_right_answers(
    items: list[tuple[int, int, int]], percentile: float
) -> None:
    """The quality [prediction is the label] gives micro Depth F1."""
    differences, answers = columns(items)
    assume((differences > 0).any())
    depths = 1 - differences / 8
    micro = depth_f1(answers, depths, 1.0, percentile).micro
    quality = (answers.labels == answers.predicted).astype(float)
    assert depth_weighted_quality(quality, depths, 1.0, percentile) == pytest.approx(micro, nan_ok=True)


def test_any_quality_can_be_weighted_by_depth() -> None:
    """A quality between 0 and 1 counts by its item's weight: .5*.2 + .25*.4 + .25*1."""
    quality = np.array([0.2, 0.4, 1.0, 0.9])
    assert depth_weighted_quality(quality, DEPTHS, REFERENCE) == pytest.approx(0.45)


def test_lambda_keeps_what_is_strictly_more_dissimilar_than_its_percentile() -> None:
    """Of five items at one step each, the median is dropped with the two deeper ones; 0 drops nothing."""
    depths = np.array([1.0, 0.8, 1.2, 0.6, 1.4])
    assert dissimilar(depths, 0).all()
    np.testing.assert_array_equal(dissimilar(depths, 50), [False, True, False, True, False])
    np.testing.assert_array_equal(dissimilar(depths, 60), [False, True, False, True, False])
    np.testing.assert_array_equal(dissimilar(depths, 90), [False, False, False, True, False])


@pytest.mark.parametrize("percentile", [-1, 101])
def test_a_lambda_outside_0_to_100_is_refused(percentile: float) -> None:
    """A percentile is a number of percent."""
    with pytest.raises(ValueError, match=r"\[0, 100\]"):
        dissimilar(DEPTHS, percentile)


def test_the_kept_items_are_weighted_among_themselves() -> None:
    """At lambda = 25 the deepest item is gone, and clipped ones are counted among the kept alone."""
    deeper = DEPTHS + np.array([0.0, 0.0, 0.0, 0.25])
    assert depth_f1(ANSWERS, deeper, REFERENCE).clipped == 1
    measured = depth_f1(ANSWERS, deeper, REFERENCE, 25)
    assert (measured.items, measured.clipped) == (3, 0)
    assert measured.micro == pytest.approx(0.75)


def test_an_emptied_subset_has_no_figure() -> None:
    """Where all items are equally deep, none is above a percentile: NaN and 0 items, not an error."""
    level = np.ones(4)
    measured = depth_f1(ANSWERS, level, REFERENCE, 50)
    assert math.isnan(measured.micro)
    assert math.isnan(measured.macro)
    assert (measured.items, measured.clipped) == (0, 0)
    assert math.isnan(depth_weighted_quality(np.ones(4), level, REFERENCE, 50))


@pytest.mark.parametrize("percentile", [0, 50])
def test_an_empty_target_has_no_figure(percentile: float) -> None:
    """No items is the same as none left, at any lambda."""
    nothing = Answers(np.array([], np.intp), np.array([], np.intp), classes=2)
    measured = depth_f1(nothing, np.array([]), REFERENCE, percentile)
    assert math.isnan(measured.micro)
    assert measured.items == 0


def test_a_curve_has_one_figure_for_each_lambda() -> None:
    """The curve is depth_f1 at each percentile, by default the paper's."""
    curve = depth_f1_curve(ANSWERS, DEPTHS, REFERENCE)
    assert tuple(curve) == (0, 25, 50, 75, 90)
    for percentile in (0, 25, 50):
        assert curve[percentile] == depth_f1(ANSWERS, DEPTHS, REFERENCE, percentile)
    legacy = depth_f1_curve(ANSWERS, DEPTHS, 1.2, [0], legacy=True)
    assert legacy == {0: depth_f1(ANSWERS, DEPTHS, 1.2, 0, legacy=True)}


@pytest.mark.parametrize(
    ("labels", "predicted", "message"),
    [
        ([0, 1], [0], "2 labels, but 1 predictions"),
        ([0, 2], [0, 1], r"outside 0\.\.1"),
        ([0, 1], [-1, 1], r"outside 0\.\.1"),
    ],
)
def test_answers_that_do_not_fit_are_refused(labels: list[int], predicted: list[int], message: str) -> None:
    """Labels and predictions are class indices, one of each for an item."""
    with pytest.raises(ValueError, match=message):
        Answers(np.array(labels), np.array(predicted), classes=2)


def test_the_published_q_ranks_the_pooled_set() -> None:
    """q_legacy is the mean share of the pooled set that lies below a target item."""
    rng = np.random.default_rng(0)
    sources, targets = rng.normal(1.0, 0.1, 40), rng.normal(0.95, 0.1, 15)
    pooled = np.concatenate([sources, targets])
    assert q_legacy(sources, targets) == pytest.approx(np.mean([(pooled < t).mean() for t in targets]))


def test_a_published_q_of_34_is_a_true_308() -> None:
    """With 5,000 source and 1,000 target items, P[X < Y] = .308 is printed as .34."""
    sources = np.arange(5000.0)
    targets = np.full(1000, 1539.5)
    assert depth_ranks(targets, sources).mean() == pytest.approx(0.308)
    assert q_legacy(sources, targets) == pytest.approx((5000 * 0.308 + 999 / 2) / 6000)
    assert round(q_legacy(sources, targets), 2) == 0.34


@pytest.mark.parametrize(("sources", "targets"), [([], [1.0]), ([1.0], [])])
def test_q_of_nothing_is_not_a_number(sources: list[float], targets: list[float]) -> None:
    """Without source or target items there is no Q."""
    assert math.isnan(q_legacy(np.array(sources), np.array(targets)))


def demonstration(chance: np.ndarray, from_source: np.ndarray) -> dict[float, DepthF1]:
    """The curve of a model that is right with a chance of its own for each item."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 5, len(chance))
    wrong = (labels + rng.integers(1, 5, len(chance))) % 5
    predicted = np.where(rng.random(len(chance)) < chance, labels, wrong)
    return depth_f1_curve(Answers(labels, predicted, classes=5), depths_at(from_source), reference_depth=1.45)


def test_depth_f1_tells_a_model_that_fails_far_from_the_source() -> None:
    """The paper's models A (right at .83 anywhere) and B (falling to .66, .83 on average): only B falls."""
    from_source = np.random.default_rng(6).permutation(10_000) / 10_000
    a = demonstration(np.full(10_000, 0.83), from_source)
    b = demonstration(1.0 - 0.34 * from_source, from_source)

    assert a[0].micro == pytest.approx(0.83, abs=0.01)
    assert all(each.micro == pytest.approx(a[0].micro, abs=0.02) for each in a.values())
    assert a[0].micro - b[0].micro > 0.02
    assert a[50].micro - b[50].micro > 0.07
    assert b[0].micro > b[25].micro > b[50].micro > b[75].micro > b[90].micro
    assert a[50].macro - b[50].macro > 0.07


def test_plain_accuracy_does_not_tell_the_two_apart() -> None:
    """A and B are right equally often, which is why F1 hides it."""
    from_source = np.arange(1000) / 999
    assert (1.0 - 0.34 * from_source).mean() == pytest.approx(0.83)
    depths = depths_at(from_source)
    assert depth_weighted_quality(np.full(1000, 0.83), depths, 1.45, 50) == pytest.approx(0.83)
    assert depth_weighted_quality(1.0 - 0.34 * from_source, depths, 1.45, 50) < 0.75

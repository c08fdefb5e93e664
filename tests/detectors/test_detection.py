"""Detection metrics, held against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, precision_recall_curve

from detectors.detection import aupr, auroc, fpr_at_95

if TYPE_CHECKING:
    from collections.abc import Callable

    Metric = Callable[[np.ndarray, np.ndarray], float]

TIED = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=45)
METRICS = (auroc, aupr, fpr_at_95)


def untied(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping ID and OOD scores without a tie."""
    rng = np.random.default_rng(seed)
    scores = rng.permutation(150) / 10.0
    return scores[:90] + 3.04, scores[90:]


@given(inside=TIED, outside=TIED)
def test_auroc_is_the_share_of_pairs_in_order(inside: list[float], outside: list[float]) -> None:
    """AUROC counts the pairs whose ID score is higher, and ties half."""
    pairs = [(i > o) + (i == o) / 2 for i in inside for o in outside]
    assert auroc(np.array(inside), np.array(outside)) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


@given(inside=TIED, outside=TIED)
def test_auroc_of_the_mirrored_question_is_the_same(inside: list[float], outside: list[float]) -> None:
    """Swapping the sides gives the complement; swapping them and the sign gives the same."""
    given_in, given_out = np.array(inside), np.array(outside)
    value = auroc(given_in, given_out)
    assert auroc(given_out, given_in) == pytest.approx(1 - value, abs=1e-12)
    assert auroc(-given_out, -given_in) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_aupr_is_the_trapezoid_under_the_curve(seed: int) -> None:
    """Without ties AUPR equals the area under scikit-learn's curve, whichever class is positive."""
    inside, outside = untied(seed)
    scores = np.concatenate([inside, outside])
    is_inside = np.concatenate([np.ones(len(inside)), np.zeros(len(outside))])
    assert len(np.unique(scores)) == len(scores)
    precision, recall, _ = precision_recall_curve(is_inside, scores)
    assert aupr(inside, outside) == pytest.approx(auc(recall, precision), abs=1e-12)
    precision, recall, _ = precision_recall_curve(1 - is_inside, -scores)
    assert aupr(inside, outside, "ood") == pytest.approx(auc(recall, precision), abs=1e-12)


@given(inside=TIED, outside=TIED)
def test_aupr_with_ties_is_the_trapezoid_under_the_curve(inside: list[float], outside: list[float]) -> None:
    """With ties each score is one point of the curve, which starts at precision 1."""
    points = [(0.0, 1.0)]
    for threshold in sorted({*inside, *outside}, reverse=True):
        hits = sum(score >= threshold for score in inside)
        misses = sum(score >= threshold for score in outside)
        points.append((hits / len(inside), hits / (hits + misses)))
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
    assert aupr(np.array(inside), np.array(outside)) == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize(("inside", "outside"), [(30, 10), (1, 3), (7, 7)])
def test_aupr_of_a_useless_score_is_no_average_precision(inside: int, outside: int) -> None:
    """With all scores tied and prevalence pi the trapezoid is (1 + pi) / 2."""
    prevalence = inside / (inside + outside)
    assert aupr(np.zeros(inside), np.zeros(outside)) == pytest.approx((1 + prevalence) / 2)
    assert aupr(np.zeros(inside), np.zeros(outside), "ood") == pytest.approx(1 - prevalence / 2)


@given(inside=TIED, outside=TIED)
def test_fpr_is_taken_at_the_highest_threshold_that_keeps_95_percent(
    inside: list[float], outside: list[float]
) -> None:
    """The threshold is the largest ID score at or above which lie 19/20 of the ID scores, ties included."""
    threshold = max(
        t for t in inside if Fraction(sum(score >= t for score in inside), len(inside)) >= Fraction(19, 20)
    )
    expected = sum(score >= threshold for score in outside) / len(outside)
    assert fpr_at_95(np.array(inside), np.array(outside)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("rows", "kept"), [(1, 1), (19, 19), (20, 19), (21, 20), (40, 38), (100, 95)])
def test_the_threshold_is_counted_in_integers(rows: int, kept: int) -> None:
    """Of n ID scores ceil(19 n / 20) are kept, without a float's rounding."""
    inside = np.arange(rows, dtype=float)
    at_threshold, below = float(rows - kept), rows - kept - 0.5
    assert fpr_at_95(inside, np.array([at_threshold, below])) == 0.5


def test_heavy_ties_at_the_threshold_all_count() -> None:
    """OOD scores tied with the threshold are false positives, every one."""
    inside = np.array([0.0] * 50 + [1.0] * 50)
    outside = np.array([0.0] * 30 + [-1.0] * 70)
    assert fpr_at_95(inside, outside) == 0.3
    assert fpr_at_95(np.ones(100), np.ones(10)) == 1.0


@given(inside=TIED, outside=TIED)
def test_calling_the_unknown_positive_mirrors_the_question(inside: list[float], outside: list[float]) -> None:
    """positive="ood" is the same question with the sides swapped and the scores' sign turned."""
    known, unknown = np.array(inside), np.array(outside)
    assert aupr(known, unknown, "ood") == pytest.approx(aupr(-unknown, -known), abs=1e-15)
    assert fpr_at_95(known, unknown, "ood") == fpr_at_95(-unknown, -known)


@pytest.mark.parametrize("metric", METRICS)
def test_perfect_separation_is_recognised(metric: Metric) -> None:
    """Where every ID score is higher, areas are 1 and the false positive rate is 0."""
    known, unknown = np.array([2.0, 3.0, 3.0]), np.array([1.0, 1.0])
    assert metric(known, unknown) == (0.0 if metric is fpr_at_95 else 1.0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("inside", "outside"), [(0, 3), (3, 0), (0, 0)])
def test_an_empty_side_has_no_metric(metric: Metric, inside: int, outside: int) -> None:
    """Without ID or without OOD scores the metric is NaN, and warns of nothing."""
    assert math.isnan(metric(np.zeros(inside), np.zeros(outside)))

"""Domain robustness, held against the paper's toy table and simulated tasks."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, spearmanr

from detectors.robustness import (
    MEANING,
    ORDERING_LEVEL,
    Scenario,
    ordering_test,
    permutation_test,
    reassignment_test,
    robustness,
    scenario,
    shifts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Test = Callable[..., float]

TOY = np.array([[90.0, 75.0, 75.0], [95.0, 80.0, 65.0], [80.0, 75.0, 70.0]])

SCORES = st.integers(2, 6).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, 100).map(float), min_size=size, max_size=size), min_size=size, max_size=size
    ).map(np.array)
)


def task(rng: np.random.Generator, domains: int, quality: float = 0.0, home: float = 0.0) -> np.ndarray:
    """Scores of domains of different difficulty, sources of different quality, and `home` for one's own."""
    difficulty, noise = rng.normal(0, 5, domains), rng.normal(0, 1, (domains, domains))
    return 80 + difficulty + quality * rng.normal(0, 1, (domains, 1)) + noise + home * np.eye(domains)


def test_a_shift_has_the_drops_of_the_papers_table_7() -> None:
    """Every row of the toy table: ST, SS, TT, IDD, SD, TD and the scenario."""
    rows = [
        (x.source, x.target, x.st, x.ss, x.tt, x.idd, x.sd, x.td, scenario(x.sd, x.td)) for x in shifts(TOY, "ABC")
    ]
    assert rows == [
        ("A", "B", 75, 90, 80, 10, 15, 5, Scenario.CLASSIC),
        ("A", "C", 75, 90, 70, 20, 15, -5, Scenario.OBSERVED),
        ("B", "A", 95, 80, 90, -10, -15, -5, Scenario.NO_CHALLENGE),
        ("B", "C", 65, 80, 70, 10, 15, 5, Scenario.CLASSIC),
        ("C", "A", 80, 70, 90, -20, -10, 10, Scenario.UNOBSERVED),
        ("C", "B", 75, 70, 80, -10, -5, 5, Scenario.UNOBSERVED),
    ]


def test_the_toy_task_has_the_published_figures() -> None:
    """Every figure of the toy task, to every printed digit."""
    found = robustness(TOY)
    exact = (found.mean_ss, found.mean_st, found.mean_drop, found.worst_sd, found.worst_td, found.harder_sd)
    assert exact == (80, 77.5, 2.5, 15, 10, 15)
    printed = {
        found.harder_td: "1.667",
        found.average_worst_sd: "8.333",
        found.average_worst_td: "6.667",
        found.std_sd: "14.053",
        found.std_td: "6.124",
    }
    assert [f"{figure:.3f}" for figure in printed] == list(printed.values())
    correlations = {
        found.spearman_ss: "-0.2540",
        found.spearman_tt: "0.8890",
        found.r2_sd: "0.8439",
        found.r2_td: "0.1778",
    }
    assert [f"{figure:.4f}" for figure in correlations] == list(correlations.values())
    assert found.missing == 0
    assert found.scenarios == {
        Scenario.CLASSIC: 2,
        Scenario.OBSERVED: 1,
        Scenario.UNOBSERVED: 2,
        Scenario.NO_CHALLENGE: 1,
        Scenario.TIE: 0,
    }


@given(scores=SCORES)
def test_the_source_drop_is_the_target_drop_and_the_difference_of_domains(scores: np.ndarray) -> None:
    """SD = TD + IDD in every shift."""
    for shift in shifts(scores, [str(i) for i in range(len(scores))]):
        assert shift.sd == shift.td + shift.idd


@given(scores=SCORES)
def test_over_all_pairs_the_mean_drops_are_one(scores: np.ndarray) -> None:
    """With no pair missing, the mean drop is the mean SD and the mean TD."""
    found = shifts(scores, [str(i) for i in range(len(scores))])
    drop = robustness(scores).mean_drop
    assert np.mean([shift.sd for shift in found]) == pytest.approx(drop, abs=1e-9)
    assert np.mean([shift.td for shift in found]) == pytest.approx(drop, abs=1e-9)


@given(scores=SCORES)
def test_rank_correlations_are_scipys(scores: np.ndarray) -> None:
    """Spearman's coefficients, ties included, wherever scipy defines them."""
    off = ~np.eye(len(scores), dtype=bool)
    st_, own = scores[off], scores.diagonal()
    found = robustness(scores)
    for ours, other in ((found.spearman_ss, own[:, np.newaxis]), (found.spearman_tt, own[np.newaxis])):
        theirs = np.broadcast_to(other, scores.shape)[off]
        if np.ptp(st_) and np.ptp(theirs):
            assert ours == pytest.approx(spearmanr(st_, theirs).statistic)
        else:
            assert math.isnan(ours)


@pytest.mark.parametrize(
    ("sd", "td", "tolerance", "expected"),
    [
        (1.0, 0.0, 0.0, Scenario.TIE),
        (0.0, -1.0, 0.0, Scenario.TIE),
        (1.0, 0.1, 0.0, Scenario.CLASSIC),
        (1.0, 0.1, 0.1, Scenario.TIE),
        (-0.1, 1.0, 0.1, Scenario.TIE),
        (-0.2, 1.0, 0.1, Scenario.UNOBSERVED),
        (0.2, -1.0, 0.1, Scenario.OBSERVED),
        (-0.2, -1.0, 0.1, Scenario.NO_CHALLENGE),
    ],
)
def test_a_drop_within_the_tolerance_has_no_sign(
    sd: float, td: float, tolerance: float, expected: Scenario
) -> None:
    """A shift with one such drop is a tie, whatever the other is."""
    assert scenario(sd, td, tolerance) is expected


def test_ties_are_counted_apart() -> None:
    """A tolerance of 5 turns the toy task's drops of 5 into ties and leaves the one without."""
    counts = robustness(TOY, tolerance=5).scenarios
    assert counts[Scenario.TIE] == 5
    assert counts[Scenario.UNOBSERVED] == 1
    assert sum(counts.values()) == 6


def test_every_scenario_says_what_it_means_for_annotation() -> None:
    """One sentence for each; only where training on the target helps does it ask for labels."""
    assert set(MEANING) == set(Scenario)
    assert all(sentence.count(".") == 1 and sentence.endswith(".") for sentence in MEANING.values())
    asking = {each for each, sentence in MEANING.items() if "annotate the target" in sentence}
    assert asking == {Scenario.CLASSIC, Scenario.UNOBSERVED}


def test_a_missing_pair_is_left_out() -> None:
    """Without C -> A, the hardest to see drop, the figures are over the other five, and one is missing."""
    scores = TOY.copy()
    scores[2, 0] = np.nan
    found = robustness(scores)
    assert found.missing == 1
    assert [(x.source, x.target) for x in shifts(scores, "ABC")][4:] == [("C", "B")]
    assert (found.mean_ss, found.mean_st, found.mean_drop) == (80, 77, 3)
    assert (found.worst_sd, found.worst_td) == (15, 5)
    assert found.average_worst_td == pytest.approx((5 + 5 + 5) / 3)
    assert found.scenarios[Scenario.UNOBSERVED] == 1


def test_a_source_without_pairs_is_in_no_average() -> None:
    """The average worst drop is over the sources that were tested elsewhere."""
    scores = TOY.copy()
    scores[2, :2] = np.nan
    assert robustness(scores).average_worst_sd == 15
    assert robustness(scores).missing == 2


def test_one_domain_has_no_drops() -> None:
    """The in-domain score is all there is; the rest is NaN and no shift is counted."""
    found = robustness(np.array([[70.0]]))
    assert found.mean_ss == 70
    assert (found.missing, sum(found.scenarios.values())) == (0, 0)
    undefined = {each.name for each in fields(found)} - {"mean_ss", "missing", "scenarios"}
    assert all(math.isnan(getattr(found, name)) for name in undefined)


def test_constant_scores_have_no_correlation() -> None:
    """Nothing varies: drops and spreads are 0, correlations NaN, and nothing warns."""
    found = robustness(np.full((4, 4), 0.9))
    assert (found.mean_drop, found.worst_sd, found.std_td) == (0, 0, 0)
    assert all(math.isnan(each) for each in (found.spearman_ss, found.spearman_tt, found.r2_sd, found.r2_td))
    assert math.isnan(found.harder_sd)
    assert found.scenarios[Scenario.TIE] == 12


def test_a_drop_constant_but_for_rounding_has_no_correlation() -> None:
    """Every source loses .05 everywhere: floats disagree in the last digit, and that is no R2."""
    own = np.array([0.9, 0.8, 0.3, 0.7])
    scores = np.where(np.eye(4, dtype=bool), own, own[:, np.newaxis] - 0.05)
    found = robustness(scores)
    assert math.isnan(found.r2_sd)
    assert found.r2_td == pytest.approx(1)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.ones((2, 3)), "not one row and column each"),
        (np.ones(3), "not one row and column each"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), "an in-domain score is missing"),
        (np.array([[1.0, np.inf], [3.0, 1.0]]), "a score is infinite"),
    ],
)
def test_scores_that_are_no_square_matrix_of_numbers_are_refused(scores: np.ndarray, message: str) -> None:
    """Every domain is a row and a column, with its in-domain score."""
    with pytest.raises(ValueError, match=message):
        robustness(scores)


def test_names_that_do_not_fit_are_refused() -> None:
    """There is one name for each domain."""
    with pytest.raises(ValueError, match="for 2 domains"):
        shifts(TOY, "AB")


def test_the_orderings_of_the_toy_task() -> None:
    """Two shifts drop fully, two rise towards an easier domain, and two orderings have none."""
    found = ordering_test(TOY)
    assert found.counts == {
        "SS>TT>ST": 2,
        "SS>ST>TT": 1,
        "TT>SS>ST": 0,
        "TT>ST>SS": 2,
        "ST>SS>TT": 0,
        "ST>TT>SS": 1,
    }
    assert (found.tied, found.statistic) == (0, pytest.approx(4))
    assert found.p_value == pytest.approx(chisquare([2, 1, 0, 2, 0, 1]).pvalue)
    assert not found.significant


def test_an_ordering_with_equal_scores_is_counted_apart() -> None:
    """One shift of the toy task has no ordering where C -> B is as good as B; none of a constant task has."""
    scores = TOY.copy()
    scores[2, 1] = 80
    found = ordering_test(scores)
    assert (found.tied, sum(found.counts.values())) == (1, 5)
    constant = ordering_test(np.ones((3, 3)))
    assert constant.tied == 6
    assert math.isnan(constant.p_value)
    assert not constant.significant


def test_difficulty_alone_passes_the_papers_test_but_not_ours() -> None:
    """Where no model is better at home, domains of different difficulty make chi-squared significant."""
    scores = task(np.random.default_rng(0), domains=12)
    assert ordering_test(scores).significant
    assert ordering_test(scores).p_value < ORDERING_LEVEL / 100
    assert permutation_test(scores, repeats=999, seed=1) > 0.1
    assert reassignment_test(scores, repeats=999, seed=1) > 0.1


@pytest.mark.parametrize("test", [permutation_test, reassignment_test])
def test_p_is_uniform_where_being_at_home_gives_nothing(test: Test) -> None:
    """Over 400 tasks of 8 domains without any effect, p falls below a level about that often."""
    rng = np.random.default_rng(3)
    drawn = np.array([test(task(rng, domains=8), repeats=199, seed=seed) for seed in range(400)])
    for level in (0.05, 0.25, 0.5, 0.75):
        assert (drawn <= level).mean() == pytest.approx(level, abs=3 * math.sqrt(level * (1 - level) / 400))


def test_sources_of_different_quality_make_sign_flips_cautious_and_leave_reassignment_exact() -> None:
    """Quality widens the flipped sums only, so p <= .05 gets rare; every reassigned sum holds it in full."""
    rng = np.random.default_rng(4)
    tasks = [task(rng, domains=8, quality=3.0) for _ in range(300)]
    flipped = np.array([permutation_test(each, repeats=199, seed=i) for i, each in enumerate(tasks)])
    dealt = np.array([reassignment_test(each, repeats=199, seed=i) for i, each in enumerate(tasks)])
    assert (flipped <= 0.05).mean() < 0.02
    assert (dealt <= 0.25).mean() == pytest.approx(0.25, abs=0.075)


@pytest.mark.parametrize("test", [permutation_test, reassignment_test])
def test_p_is_small_where_every_model_is_best_at_home(test: Test) -> None:
    """Four standard deviations at home, 12 domains: nothing drawn reaches it."""
    scores = task(np.random.default_rng(5), domains=12, home=4.0)
    assert test(scores, repeats=999, seed=0) <= 0.002


@pytest.mark.parametrize("test", [permutation_test, reassignment_test])
def test_p_is_large_where_every_model_is_worst_at_home(test: Test) -> None:
    """The tests have one side: a gain is no evidence of a drop."""
    assert test(task(np.random.default_rng(5), domains=12, home=-4.0), repeats=999, seed=0) > 0.99


@pytest.mark.parametrize("test", [permutation_test, reassignment_test])
def test_p_depends_on_the_seed_and_nothing_else(test: Test) -> None:
    """The same seed gives the same p, another seed another draw, and the scores stay as they were."""
    before = TOY.copy()
    assert test(TOY, repeats=500, seed=1) == test(TOY, repeats=500, seed=1)
    assert len({test(TOY, repeats=500, seed=seed) for seed in range(5)}) > 1
    np.testing.assert_array_equal(TOY, before)


@pytest.mark.parametrize("test", [permutation_test, reassignment_test])
def test_without_any_drop_p_is_one(test: Test) -> None:
    """Every draw reaches what scores without a difference show."""
    assert test(np.full((4, 4), 0.1), repeats=99, seed=0) == 1


def test_a_draw_that_differs_by_rounding_alone_reaches_the_observed() -> None:
    """Sources that are equally good at home and away give p = 1, in whatever order floats are added."""
    quality = np.array([[0.1], [0.2], [0.3], [0.7]])
    assert reassignment_test(np.tile(quality, 4), repeats=99, seed=0) == 1


def test_with_three_domains_no_p_can_be_small() -> None:
    """Chance deals three domains out right once in six times, and keeps three signs once in eight."""
    best = np.array([[0.9, 0.1, 0.2], [0.3, 0.9, 0.1], [0.2, 0.1, 0.9]])
    assert reassignment_test(best, repeats=2000, seed=0) == pytest.approx(1 / 6, abs=0.03)
    assert permutation_test(best, repeats=2000, seed=0) == pytest.approx(1 / 8, abs=0.03)


def test_a_missing_pair_leaves_sign_flips_and_stops_reassignment() -> None:
    """Signs flip over what is there; dealing out anew needs every score."""
    scores = task(np.random.default_rng(5), domains=12, home=4.0)
    scores[2, 7] = np.nan
    assert permutation_test(scores, repeats=999, seed=0) <= 0.002
    assert math.isnan(reassignment_test(scores, repeats=999, seed=0))


@pytest.mark.parametrize("test", [permutation_test, reassignment_test])
def test_one_domain_has_no_p(test: Test) -> None:
    """Without a shift there is nothing to test."""
    assert math.isnan(test(np.array([[70.0]]), repeats=9, seed=0))

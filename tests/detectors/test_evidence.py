"""The evidence of a shift: what it is worth, what it costs to look, and when it says that a change began."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from detectors.evidence import ALPHAS, ODDS, Bets, Evidence, flagged_at, log_threshold, most_flagged, most_kept

EDGES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ROWS = (500, 800)
NO_LIMIT = float("inf")


def played(bets: Bets, shares: np.ndarray, items: int, limit: float = NO_LIMIT) -> list[Evidence]:
    """The evidence after each pane of (panes, D, A) counts, panes being a minute long."""
    evidence, found = Evidence.none(bets), []
    for number, counts in enumerate(shares):
        evidence = evidence.after(bets, counts, items, 60 * number, limit)
        found.append(evidence)
    return found


def counts_of(rng: np.random.Generator, rate: float, panes: int, items: int) -> np.ndarray:
    """(panes, D, A) counts of items whose p-values are rate times as often below each alpha."""
    p = rng.random((panes, len(ROWS), items)) / rate
    return np.stack([(p <= alpha).sum(axis=2) for alpha in ALPHAS], axis=2)


def test_q0_is_the_quantile_of_the_share_that_calibration_leaves_open() -> None:
    """The share of the source below the k-th of m calibration scores is Beta(k, m - k + 1)."""
    assert most_flagged(999, 0.05, 0.001) == pytest.approx(beta.ppf(0.999, 50, 950))
    assert most_flagged(50, 0.01, 0.001) == pytest.approx(beta.ppf(0.999, 1, 50))
    assert most_flagged(10**7, 0.05) == pytest.approx(0.05, rel=0.01)


def test_one_bet_is_a_likelihood_ratio() -> None:
    """On n items of which f are flagged, the stake is (q1/q0)^f ((1-q1)/(1-q0))^(n-f)."""
    bets = Bets.calibrated([999])
    q0 = most_flagged(999, 0.05)
    q1 = 3 * q0 / (1 - q0 + 3 * q0)
    evidence = Evidence.none(bets).after(bets, np.array([[0, 7, 0]]), 60, 0, NO_LIMIT)
    expected = 7 * log(q1 / q0) + 53 * log((1 - q1) / (1 - q0))
    assert evidence.logs[0, ALPHAS.index(0.05), ODDS.index(3.0)] == pytest.approx(expected)


def test_a_bet_is_fair_under_the_null() -> None:
    """The expected stake after one pane of a source at the very edge of the null is exactly 1."""
    bets, items = Bets.calibrated([200]), 30
    for place, alpha in enumerate(ALPHAS):
        q0 = most_flagged(200, alpha)
        flagged = np.arange(items + 1)
        weights = binom.pmf(flagged, items, q0)
        stakes = [
            Evidence.none(bets).after(bets, np.full((1, 3), count), items, 0, NO_LIMIT).logs[0, place]
            for count in flagged
        ]
        assert weights @ np.exp(stakes) == pytest.approx(np.ones(len(ODDS)))


def test_looking_after_every_pane_sees_a_shift_no_oftener_than_promised() -> None:
    """Without a shift, 40 streams of 2,500 panes cross a threshold A at most about 40 x 2,500 / A times."""
    rng, bets = np.random.default_rng(5), Bets.calibrated(ROWS)
    crossings, panes, threshold = 0, 2500, 250.0
    for _ in range(40):
        below = True
        for evidence in played(bets, counts_of(rng, 1.0, panes, 40), 40, most_kept(log(threshold), bets)):
            crossings += below and evidence.log >= log(threshold)
            below = evidence.log < (log(threshold) if below else log(threshold) / 2)
    assert crossings <= 40 * panes / threshold


@pytest.mark.parametrize(("rate", "items"), [(1.8, 3000), (3.0, 300), (8.0, 80)])
def test_a_shift_is_seen_soon_and_dated(rate: float, items: int) -> None:
    """Items flagged `rate` times as often are seen within so many items, and the change dated to a few panes."""
    rng, bets = np.random.default_rng(7), Bets.calibrated(ROWS)
    limit = log_threshold(4320, 50, 1.0)
    shares = np.concatenate([counts_of(rng, 1.0, 300, 20), counts_of(rng, rate, 200, 20)])
    found = played(bets, shares, 20, most_kept(limit, bets))
    first = next(number for number, evidence in enumerate(found) if evidence.log >= limit)
    assert 300 <= first < 300 + items / 20
    assert abs(found[first].began / 60 - 300) <= max(3, first - 300)


def test_it_is_outlived_in_about_the_time_it_took() -> None:
    """After a long shift, evidence that is cut above what is needed falls again with the first normal items."""
    rng, bets = np.random.default_rng(11), Bets.calibrated(ROWS)
    limit = log_threshold(4320, 5, 1.0)
    shares = np.concatenate([counts_of(rng, 4.0, 500, 50), counts_of(rng, 1.0, 60, 50)])
    found = played(bets, shares, 50, most_kept(limit, bets))
    assert found[499].log >= limit
    assert next(number for number in range(500, 560) if found[number].log < limit / 2) < 540


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=20))
def test_extreme_counts_leave_numbers(panes: list[tuple[int, int]]) -> None:
    """All flagged, none flagged, and panes without items: evidence stays below its limit and is never NaN."""
    bets = Bets.calibrated(ROWS)
    evidence = Evidence.none(bets)
    assert evidence.log == float("-inf")
    for number, (flagged, others) in enumerate(panes):
        counts = np.full((len(ROWS), len(ALPHAS)), flagged)
        evidence = evidence.after(bets, counts, flagged + others, number, 30.0)
        assert not np.isnan(evidence.logs).any()
        assert evidence.log <= 30.0
        assert 0 <= evidence.began <= number


def test_the_threshold_shares_the_budget() -> None:
    """One false alarm in a month of 4,320 panes: the threshold of ten streams is ten times that of one."""
    assert log_threshold(4320, 1, 1.0) == pytest.approx(log(4320))
    assert log_threshold(4320, 10, 2.0) == pytest.approx(log(21600))
    assert log_threshold(30, 1, 100.0) == pytest.approx(log(20))
    assert log_threshold(4320, 0, 1.0) == pytest.approx(log(4320))


def test_flagged_items_are_counted_from_buckets() -> None:
    """The count at alpha is that of all buckets up to it."""
    counts = np.arange(2 * len(EDGES)).reshape(2, len(EDGES))
    assert flagged_at(counts, EDGES).tolist() == [[3, 10, 21], [30, 55, 84]]

"""How many labels, and which: sizes that keep their promise, draws whose probabilities are what they say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from detectors.proportions import wilson
from detectors.strata import allocate, draw, labels_needed

NAN = float("nan")


def _keys(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def _half_width(share: float, items: int, level: float) -> float:
    low, high = wilson(share, items, level)
    return (high - low) / 2


@given(st.floats(0.0, 1.0), st.floats(0.01, 0.2), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_labels_needed_give_the_precision_and_no_fewer_would(
    share: float, precision: float, level: float
) -> None:
    """The interval of so many labels is as narrow as asked for, and one label fewer would not do."""
    needed = labels_needed((share, share), precision, level)
    # Near 0 and 1 the interval is cut off there: what it would be without the cut was planned for.
    if wilson(share, needed, level)[0] in {0.0, share} or wilson(share, needed, level)[1] in {1.0, share}:
        assert _half_width(share, needed, level) <= precision
        return
    assert _half_width(share, needed, level) <= precision + 1e-9
    assert needed == 1 or _half_width(share, needed - 1, level) > precision - 1e-9


def test_it_is_planned_for_the_worst_accuracy_that_is_believed() -> None:
    """The value nearest to a half counts, on either side of it, and a half itself where nothing is known."""
    worst = labels_needed((0.5, 0.5), 0.03)
    assert labels_needed((0.3, 0.8), 0.03) == labels_needed((NAN, NAN), 0.03) == worst == 1064
    assert labels_needed((0.7, 0.9), 0.03) == labels_needed((0.7, 0.7), 0.03) < worst
    assert labels_needed((0.1, 0.3), 0.03) == labels_needed((0.7, 0.9), 0.03)
    assert labels_needed((-0.2, 1.3), 0.03) == worst


SIZES = st.lists(st.integers(0, 500), max_size=7)


@given(SIZES, st.integers(0, 2000), st.integers(0, 3))
def test_an_allocation_adds_up(sizes: list[int], total: int, least: int) -> None:
    """Everything asked for is drawn, nothing more than there is, and no stratum gives more than it holds."""
    given_ = allocate(sizes, total, least)
    assert sum(given_) == min(total, sum(sizes))
    assert all(0 <= count <= size for count, size in zip(given_, sizes, strict=True))
    if total >= least * len(sizes):
        assert all(count >= min(least, size) for count, size in zip(given_, sizes, strict=True))


def test_an_allocation_is_in_proportion() -> None:
    """Beyond the two of each, strata give in proportion to what they hold."""
    assert allocate([400, 200, 100], 70) == [40, 20, 10]
    assert allocate([400, 400, 400, 400, 380], 495) == [100, 100, 100, 100, 95]
    assert allocate([1000, 3], 10) == [8, 2]


@given(
    st.integers(0, 300),
    st.integers(0, 400),
    st.integers(0, 60),
    st.integers(0, 10**6),
    st.sampled_from([1, 5, 1000]),
)
@example(count=3, total=2, lowest=1, seed=0, steps=1)
def test_a_draw_is_what_it_says(count: int, total: int, lowest: int, seed: int, steps: int) -> None:
    """No row twice, as many as asked for, and the probability of each is what its stratum gave."""
    rng = np.random.default_rng(seed)
    depths = rng.integers(0, steps, count) / steps  # with many ties, or none
    drawn = draw(depths, _keys(seed, count), total, lowest)
    assert len(drawn) == len(set(drawn.rows.tolist())) == min(total, count)
    assert sum(size for size, _ in drawn.strata) == count
    # Of a draw of two, one may be the row of lowest depth: then one is left for all the others.
    others = len(drawn) - int(drawn.lowest.sum())
    for stratum, (size, taken) in enumerate(drawn.strata):
        inside = drawn.stratum == stratum
        assert inside.sum() == taken
        assert taken >= min(2, size, len(drawn) if drawn.lowest[inside].any() else others)
        np.testing.assert_allclose(drawn.probability[inside], taken / size)
    sure = drawn.rows[drawn.lowest]
    assert (drawn.probability[drawn.lowest] == 1).all()
    rest = np.setdiff1d(np.arange(count), sure)
    if len(sure) and len(rest):
        assert depths[sure].max() <= depths[rest].min()
    assert len(sure) <= max(lowest, 0)
    if lowest and lowest <= total // 2 and total <= count:
        assert len(sure) == lowest


def test_the_same_draw_again_and_another_by_another_order() -> None:
    """The random numbers decide, and nothing else; the input is left as it was."""
    depths, keys = np.linspace(0, 1, 200), _keys(0, 200)
    before = depths.copy(), keys.copy()
    first, second = draw(depths, keys, 50, 10), draw(depths, keys, 50, 10)
    assert first.rows.tolist() == second.rows.tolist()
    assert set(first.rows.tolist()) != set(draw(depths, _keys(1, 200), 50, 10).rows.tolist())
    assert (depths == before[0]).all()
    assert (keys == before[1]).all()


def test_weighted_by_the_probabilities_a_draw_is_unbiased() -> None:
    """Over many draws the weighted mean of what depends on depth comes out as that of all rows."""
    rng = np.random.default_rng(7)
    depths = rng.beta(2, 3, 400)
    right = (rng.random(400) < 0.3 + 0.6 * depths).astype(float)
    means, times = [], np.zeros(400)
    plain = []
    for seed in range(3000):
        drawn = draw(depths, _keys(seed, 400), 60, 12)
        times[drawn.rows] += 1
        means.append(float((right[drawn.rows] / drawn.probability).sum() / 400))
        plain.append(float(right[drawn.rows].mean()))
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - right.mean()) < 4 * error
    assert abs(np.mean(plain) - right.mean()) > 10 * error  # without the weights the least alike count too much
    expected = np.full(400, np.nan)
    last = draw(depths, _keys(0, 400), 60, 12)
    expected[last.rows] = last.probability
    known = ~np.isnan(expected)
    assert np.abs(times[known] / 3000 - expected[known]).max() < 5 * np.sqrt(0.25 / 3000)


def test_strata_pay_where_accuracy_depends_on_depth() -> None:
    """With the same number of labels the estimate varies less than that of a simple random draw."""
    depths = np.linspace(0, 1, 1000)
    right = (np.random.default_rng(3).random(1000) < np.where(depths < 0.5, 0.2, 0.95)).astype(float)
    found = []
    for seed in range(800):
        drawn = draw(depths, _keys(seed, 1000), 100, 0)
        found.append(float((right[drawn.rows] / drawn.probability).sum() / 1000))
    simple = np.sqrt(right.var() / 100 * (1 - 100 / 1000))
    assert np.std(found) < 0.8 * simple


def test_who_stops_half_way_has_labelled_a_random_part() -> None:
    """Where an item lies in the list says nothing about its stratum or its depth."""
    depths = np.linspace(0, 1, 600)
    correlations = []
    for seed in range(300):
        drawn = draw(depths, _keys(seed, 600), 120, 10)
        correlations.append(np.corrcoef(np.arange(len(drawn)), depths[drawn.rows])[0, 1])
    assert abs(np.mean(correlations)) < 4 * np.std(correlations) / np.sqrt(300)


def test_strata_are_ranges_of_depth_of_about_equal_size() -> None:
    """They are cut at the sample's own quantiles, the shallowest first, so that none is empty."""
    depths = np.random.default_rng(0).permutation(np.linspace(0.1, 0.2, 103))
    drawn = draw(depths, _keys(4, 103), 40, 3)
    assert [size for size, _ in drawn.strata] == [3, 20, 20, 20, 20, 20]
    ranges = [depths[drawn.rows[drawn.stratum == place]] for place in range(6)]
    assert all(shallow.max() < deep.min() for shallow, deep in pairwise(ranges))


@pytest.mark.parametrize("depths", [np.full(50, NAN), np.zeros(50), np.full(50, np.inf)])
def test_depths_that_say_nothing_still_give_a_draw(depths: np.ndarray) -> None:
    """Ties are broken by the random numbers, and NaN counts as least alike."""
    drawn = draw(depths, _keys(2, 50), 20, 4)
    assert (len(drawn), drawn.lowest.sum()) == (20, 4)

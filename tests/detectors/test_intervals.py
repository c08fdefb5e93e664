"""Intervals of an accuracy, held against hand-made cases and simulated domains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from detectors.contract import FitError
from detectors.intervals import DEVIATIONS, LEVEL, AccuracyEstimate, Home, around, half_width, sampling_variance

SHARES = st.floats(0, 1)
ERRORS = st.floats(0, 0.5)
SIZES = st.integers(1, 5000)


def test_the_deviations_are_those_of_the_level() -> None:
    """A normal distribution has LEVEL of its mass within DEVIATIONS standard deviations."""
    assert norm.cdf(DEVIATIONS) - norm.cdf(-DEVIATIONS) == pytest.approx(LEVEL, abs=1e-5)


@given(
    accuracy=st.floats(-0.5, 1.5),
    error=ERRORS,
    items=SIZES,
    usual=SIZES,
    ends=st.lists(st.floats(-1, 2), max_size=2),
)
def test_bounds_are_ordered_shares(
    accuracy: float, error: float, items: int, usual: int, ends: list[float]
) -> None:
    """0 <= low <= accuracy <= high <= 1, the accuracy and its ends, cut to [0, 1], between the bounds."""
    found = around(accuracy, error, items, usual, tuple(ends))
    assert 0 <= found.low <= found.accuracy <= found.high <= 1
    assert found.accuracy == min(max(accuracy, 0), 1)
    for end in ends:
        assert found.low - 1e-12 <= min(max(end, 0), 1) <= found.high + 1e-12


@given(accuracy=SHARES, error=ERRORS, items=SIZES, fewer=SIZES, usual=SIZES)
def test_a_smaller_window_has_a_wider_interval(
    accuracy: float, error: float, items: int, fewer: int, usual: int
) -> None:
    """Fewer items never narrow the interval; as many as the domains had, or more, leave it at the error."""
    fewer, items = sorted((fewer, items))
    narrow, wide = (around(accuracy, error, count, usual) for count in (items, fewer))
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high
    if items >= usual:
        assert narrow.low == pytest.approx(max(accuracy - error, 0))
        assert narrow.high == pytest.approx(min(accuracy + error, 1))


def test_an_interval_by_hand() -> None:
    """Error, sampling beyond the domains' and an end add as squares, the end on its own side only."""
    found = around(0.8, 0.03, 100, 1000, ends=(0.8, 0.75))
    extra = DEVIATIONS**2 * (0.16 / 100 - 0.16 / 1000)
    assert found.low == pytest.approx(0.8 - math.sqrt(0.03**2 + extra + 0.05**2))
    assert found.high == pytest.approx(0.8 + math.sqrt(0.03**2 + extra))


def test_no_estimate_no_bounds() -> None:
    """An accuracy of NaN, of a model that no domain has seen, has bounds of NaN and warns of nothing."""
    found = around(math.nan, 0.05, 100, 500, (math.nan, math.nan))
    assert all(map(math.isnan, (found.accuracy, found.low, found.high)))


@given(accuracy=st.floats(-1, 2), items=SIZES)
def test_the_sampling_variance_is_a_binomial_share(accuracy: float, items: int) -> None:
    """p (1 - p) / n away from 0 and 1; falling with n, and above zero even where every item seems right."""
    value = sampling_variance(accuracy, items)
    inside = min(max(accuracy, 0), 1)
    assert value >= inside * (1 - inside) / items
    assert 0 < sampling_variance(accuracy, items + 1) < value
    assert sampling_variance(0.5, items + 2) == pytest.approx(max(0.25, 1 / (items + 3)) / (items + 2))


@pytest.mark.parametrize("sizes", [(1,), (4,), (2, 2), (1, 5), (3, 1, 7), (1, 1, 1)])
def test_the_half_width_by_its_definition(sizes: tuple[int, ...]) -> None:
    """The quantile of all errors' sizes times t / normal quantile times sqrt(1 + 1/N); domains may be unequal."""
    rng = np.random.default_rng(1)
    errors = [rng.normal(0, 0.05, size) for size in sizes]
    together = sorted(abs(error) for part in errors for error in part)
    place = 0.9 * (len(together) - 1)
    below = int(place)
    quantile = together[below] + (place - below) * (together[min(below + 1, len(together) - 1)] - together[below])
    domains = len(sizes)
    widening = t.ppf(0.95, domains) / norm.ppf(0.95) * math.sqrt(1 + 1 / len(together))
    assert half_width(errors) == pytest.approx(quantile * widening)


@given(seed=st.integers(0, 2**32 - 1), domains=st.integers(1, 6), scale=st.floats(0.01, 10))
def test_half_widths_scale_and_forget_signs_order_and_empty_domains(seed: int, domains: int, scale: float) -> None:
    """The half width scales with the errors, and ignores signs, the domains' order and domains without errors."""
    rng = np.random.default_rng(seed)
    errors = [rng.normal(size=rng.integers(1, 5)) for _ in range(domains)]
    width = half_width(errors)
    assert half_width([scale * part for part in errors]) == pytest.approx(scale * width)
    assert half_width([-part for part in errors[::-1]]) == pytest.approx(width)
    assert half_width([*errors, np.empty(0)]) == width
    assert half_width(errors, 0.8) <= width <= half_width(errors, 0.95)


@pytest.mark.parametrize("errors", [[], [np.empty(0)], [np.empty(0), np.empty(0)]])
def test_without_errors_nothing_is_known(errors: list[np.ndarray]) -> None:
    """No domain left out, no interval."""
    with pytest.raises(FitError, match="no domain was left out"):
        half_width(errors)


@pytest.mark.parametrize("domains", [1, 2, 3, 5, 10, 19])
@pytest.mark.parametrize("each", [1, 5])
def test_the_half_width_holds_a_new_domain_at_its_level(domains: int, each: int) -> None:
    """Over simulated normal errors that go together within a domain, 85 % and more of new ones lie within it."""
    rng = np.random.default_rng([domains, each])
    inside = []
    for _ in range(400):
        shared = 0.9 * rng.normal(size=(domains + 1, 1))
        errors = shared + math.sqrt(1 - 0.81) * rng.normal(size=(domains + 1, each))
        inside.append(abs(errors[-1, 0]) <= half_width(list(errors[:-1])))
    assert np.mean(inside) >= 0.85


NEW = AccuracyEstimate(0.7, 0.6, 0.85)


@given(novelty=st.floats(0, 1), items=st.integers(30, 10_000))
def test_a_mixture_with_the_source_is_corrected_in_proportion(novelty: float, items: int) -> None:
    """The correction counts for the share that is the source; what is new keeps its own bounds, no others."""
    found = Home(0.9, 400, 0.1).mixed(NEW, novelty, items)
    assert found.accuracy == pytest.approx(0.7 + 0.1 * (1 - novelty))
    assert 0 <= found.low <= found.accuracy <= found.high <= 1
    assert found.accuracy - found.low >= novelty * 0.1 - 1e-12


def test_what_is_new_altogether_is_left_as_it_is() -> None:
    """With novelty 1 the estimate of a new domain stands."""
    found = Home(0.9, 400, 0.1).mixed(NEW, 1.0, 500)
    assert (found.accuracy, found.low, found.high) == pytest.approx((0.7, 0.6, 0.85))


def test_what_is_the_source_is_off_by_sampling_only() -> None:
    """With novelty 0 the interval is that of the test rows and of the window, however wide the other was."""
    found = Home(0.9, 400, 0.2).mixed(NEW, 0.0, 900)
    half = 1.6449 * math.sqrt(0.09 / 400 + 0.09 / 900)
    assert (found.low, found.high) == pytest.approx((0.9 - half, 0.9 + half))

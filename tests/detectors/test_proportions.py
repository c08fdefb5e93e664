"""Intervals of shares, held against published figures and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from detectors.proportions import difference, wilson


@pytest.mark.parametrize(("right", "items"), [(0, 1), (1, 1), (0, 20), (13, 20), (500, 500), (71, 1000)])
def test_wilson_is_scipys(right: int, items: int) -> None:
    """The bounds are those of scipy's Wilson interval."""
    expected = binomtest(right, items).proportion_ci(method="wilson")
    assert wilson(right / items, items) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_nothing_is_known_of_no_items() -> None:
    """Without items, the share may be anything."""
    assert wilson(float("nan"), 0) == (0.0, 1.0)


@given(st.floats(0, 1), st.integers(1, 10_000), st.floats(0, 1), st.integers(1, 10_000))
def test_the_difference_lies_in_its_interval(a: float, n: int, b: float, m: int) -> None:
    """The bounds hold the difference, lie in -1 to 1, and turn round with the order."""
    low, high = difference((a, n), (b, m))
    assert -1 <= low <= a - b <= high <= 1
    assert difference((b, m), (a, n)) == pytest.approx((-high, -low), abs=1e-12)


def test_the_difference_is_as_sure_as_it_says() -> None:
    """Near 1 and with few items, at least about 95 of 100 intervals hold the true difference."""
    rng = np.random.default_rng(0)
    draws = zip(rng.binomial(40, 0.95, 2000) / 40, rng.binomial(60, 0.8, 2000) / 60, strict=True)
    bounds = [difference((a, 40), (b, 60)) for a, b in draws]
    assert 0.94 < np.mean([low <= 0.15 <= high for low, high in bounds]) < 0.98

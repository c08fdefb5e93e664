"""Pace: no more than the rate, no busy waiting, no long sleep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.pace import PATIENCE, Pace


class Clock:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.now

    def wait(self, seconds: float) -> None:
        """Sleep, at once."""
        self.waits.append(seconds)
        self.now += seconds


@given(st.floats(0.5, 5000), st.lists(st.integers(1, 100), min_size=1, max_size=40), st.floats(0, 0.2))
def test_the_rate_is_kept(rate: float, sizes: list[int], work: float) -> None:
    """However much is asked for at once and however long work takes, no more goes than is due, and little less."""
    clock = Clock()
    pace = Pace(rate, clock, clock.wait)
    sent = 0
    for most in sizes:
        allowed = pace.allow(most)
        assert 0 <= allowed <= most
        sent += allowed
        due = rate * (clock.now - 1000.0)
        assert sent <= due + 1e-6
        assert allowed == most or sent > due - 1
        clock.now += work
    assert all(0 < seconds <= PATIENCE for seconds in clock.waits)


def test_it_never_waits_long() -> None:
    """At one record a minute a reader still gets a turn every quarter of a second, with nothing."""
    clock = Clock()
    pace = Pace(1 / 60, clock, clock.wait)
    assert [pace.allow(64) for _ in range(239)] == [0] * 239
    assert sum(pace.allow(64) for _ in range(3)) == 1


def test_without_a_rate_everything_goes() -> None:
    """As fast as the records are scored."""
    clock = Clock()
    pace = Pace(None, clock, clock.wait)
    assert [pace.allow(64), pace.allow(7)] == [64, 7]
    assert clock.waits == []


@pytest.mark.parametrize("late", [1.0, 60.0])
def test_a_slow_consumer_catches_up(late: float) -> None:
    """What became due while a batch was scored goes without waiting."""
    clock = Clock()
    pace = Pace(10, clock, clock.wait)
    pace.allow(1)
    waited = len(clock.waits)
    clock.now += late
    assert pace.allow(10) == 10
    assert len(clock.waits) == waited

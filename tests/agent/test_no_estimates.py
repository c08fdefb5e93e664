"""Where a reference allows no estimates: every window is told why, and it costs nothing."""

from __future__ import annotations

from threading import Event, active_count
from typing import TYPE_CHECKING

import pytest

from agent.no_estimates import NoEstimates
from agent.window_contents import EndedWindow, Window

if TYPE_CHECKING:
    from collections.abc import Callable


def test_every_window_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each window's estimate is the reason, at once and once; nothing is merged, no thread started, no wait."""

    def merged(window: EndedWindow) -> Window:
        pytest.fail(f"merged {window}")

    monkeypatch.setattr(EndedWindow, "merged", merged)
    threads = active_count()
    with NoEstimates("no domains", lambda: 5.0) as estimates:
        estimates.offer((EndedWindow("a", "short", 0, 60, ()), EndedWindow("a", "long", 0, 60, ())))
        made = estimates.take()
        assert [(each.window, each.end, each.time, each.estimate.reason) for each in made] == [
            ("short", 60, 5.0, "no domains"),
            ("long", 60, 5.0, "no domains"),
        ]
        assert estimates.take() == []
        assert active_count() == threads
        assert not estimates.unfinished(Event())
    assert sorted(each.window for each in estimates.latest.estimates) == ["long", "short"]
    assert estimates.latest.last_success == {}


@pytest.mark.parametrize("read", [lambda d: d.drop.estimate, lambda d: d.drop.low, lambda d: d.accuracy.high])
def test_no_estimate_is_not_a_drop_of_nothing(read: Callable[..., float]) -> None:
    """Every number of it is NaN, and it does not claim to be inside any domain."""
    estimates = NoEstimates("no domains", lambda: 5.0)
    estimates.offer((EndedWindow("a", "short", 0, 60, ()),))
    (made,) = estimates.take()
    assert read(made.estimate) != read(made.estimate)
    assert not made.estimate.inside_domains

"""What a window is made of: the panes it was reported from, merged as they would have been at that moment."""

# Fixtures that are functions are typed as little as pytest types them.
# ruff: noqa: ANN401

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.state import State

HOUR = 1_767_225_600


def fed(state: State, score: Any, times: Sequence[float], name: str | None = None) -> list[Any]:
    """The windows that close as these records come, each in a batch of its own."""
    closed = []
    for time in times:
        records = (Record(f"{time}", "good film", HOUR + time, slice=name),)
        state.add(records, score(records))
        closed += state.close_windows(0.0)
    return closed


def test_a_window_holds_the_items_it_was_reported_with(new_state: Callable[..., State], score: Any) -> None:
    """Of each slice and name the newest window can be taken, with the items, sample and end of its report."""
    state = new_state(sample=100)
    closed = fed(state, score, [0.0, 61.0, 62.0, 121.0, 181.0, 241.0])
    ended = {each.key: each for each in state.windows.take_ended()}
    newest = {(report.slice, report.window): report for report in closed}
    assert ended.keys() == newest.keys() == {("default", "short"), ("default", "long")}
    for key, report in newest.items():
        window = ended[key].merged()
        assert (window.slice, window.window) == key
        assert (window.start, window.end) == (report.start, report.end)
        assert ended[key].items == window.tally.items == len(window.sample) == report.items
        assert window.tally.classes.tolist() == list(report.classes.values())


def test_windows_are_taken_once(new_state: Callable[..., State], score: Any) -> None:
    """What was taken is not given again until it ends anew."""
    state = new_state()
    fed(state, score, [0.0, 121.0])
    assert state.windows.take_ended()
    assert state.windows.take_ended() == ()


@pytest.mark.parametrize("later", [[300.0, 301.0], [7200.0, 7400.0]])
def test_what_the_loop_does_next_changes_no_window_taken(
    new_state: Callable[..., State], score: Any, plain: Any, later: list[float]
) -> None:
    """Panes that are merged into, thinned or expired later leave a window in another thread as it was."""
    state, same = new_state(), new_state()
    times = [float(time) for time in range(0, 240, 5)]
    fed(state, score, times)
    fed(same, score, times)
    taken = state.windows.take_ended()
    fed(state, score, later)
    assert [plain(each.merged()) for each in taken] == [plain(each.merged()) for each in same.windows.take_ended()]


def test_a_restored_state_offers_its_newest_windows(new_state: Callable[..., State], score: Any) -> None:
    """After a restart the windows that were last reported can be taken again, so that estimates come back."""
    before, after = new_state(), new_state()
    fed(before, score, [0.0, 61.0, 121.0])
    after.windows.restore(before.windows.panes.values(), before.windows.sealed_until)
    assert after.windows.take_ended() == ()
    after.resume()
    assert [(each.key, each.end, each.items) for each in after.windows.take_ended()] == [
        (each.key, each.end, each.items) for each in before.windows.take_ended()
    ]

"""The state: what a snapshot says, and what moves with which batch."""

# Fixtures that are functions are typed as little as pytest types them.
# ruff: noqa: ANN401

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.batch import Batch
from agent.interval import Interval
from agent.messages import DeadLetter, Message
from agent.pairing import Half
from agent.payloads.contract import Kind
from agent.reasons import Reason
from agent.records import Label, Record
from agent.report import DropEstimate, Estimation, WindowEstimate
from agent.state import FOLDED, Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.scorer import Scored
    from agent.state import State

    Score = Callable[[Sequence[Record]], Scored]

HOUR = 1_767_225_600


def take(state: State, score: Score, times: Sequence[float], **facts: Any) -> None:
    """One batch of records at these times after the hour."""
    batch = Batch(tuple(Record(f"{time}", "film", HOUR + time, **facts) for time in times), positions={"file": 1})
    state.receive(batch)
    state.add(batch.records, score(batch.records))
    state.pass_to(batch.positions)
    state.close_windows(0.0)


@pytest.mark.parametrize("rejected", [{}, {Reason.NOT_JSON: 2}])
def test_a_batch_without_records_moves_the_positions(
    new_state: Callable[..., State], rejected: dict[Reason, int]
) -> None:
    """Nothing to score is no reason to read the same rejected rows again."""
    state = new_state()
    batch = Batch((), rejected, positions={"file": 7})
    state.receive(batch)
    state.pass_to(batch.positions)
    assert state.positions == {"file": 7}
    assert state.report(1.0, ready=True).counts.balanced


def test_records_are_in_flight_until_they_are_added(new_state: Callable[..., State], score: Score) -> None:
    """Between receiving and adding, a snapshot shows the batch in flight, and its positions have not moved."""
    state = new_state()
    batch = Batch((Record("1", "film", HOUR),), {Reason.NO_TEXT: 3}, positions={"file": 4})
    state.receive(batch)
    counts = state.report(1.0, ready=True).counts
    assert (counts.received, counts.in_flight, counts.processed) == ({"file": 4}, 1, 0)
    assert counts.discarded["no_text"] == 3
    assert state.positions == {}
    state.add(batch.records, score(batch.records))
    state.pass_to(batch.positions)
    counts = state.report(1.0, ready=True).counts
    assert (counts.in_flight, counts.processed) == (0, 1)
    assert state.positions == {"file": 4}


def test_a_late_record_is_not_processed(new_state: Callable[..., State], score: Score) -> None:
    """It leaves the flight as discarded, and neither a pane nor a histogram nor the processed count sees it."""
    state = new_state()
    take(state, score, [0.0, 500.0])
    take(state, score, [1.0, 501.0])
    report = state.report(1.0, ready=True)
    assert (report.counts.processed, report.counts.discarded["late"], report.counts.in_flight) == (3, 1, 0)
    assert report.counts.balanced
    assert sum(report.item_p_values["default", "knn"].counts) == 3
    assert sum(pane.tally.items for pane in state.windows.panes.values()) == 2  # the first minute has expired


def test_late_records_take_no_slice(new_state: Callable[..., State], score: Score) -> None:
    """A slice's place is not given to a record that is in no window."""
    state = new_state()
    take(state, score, [500.0])
    take(state, score, [1.0], slice="late")
    assert state.slices.known == ()


def test_a_snapshot_shows_the_newest_windows_of_recent_slices(
    new_state: Callable[..., State], score: Score
) -> None:
    """The short and long window of each slice, and no longer than they overlap with now."""
    state = new_state()
    take(state, score, [0.0], slice="quiet")
    take(state, score, [130.0, 190.0, 250.0], slice="busy")
    assert [(w.slice, w.window, w.end - HOUR) for w in state.report(1.0, ready=True).windows] == [
        ("busy", "long", 180),
        ("busy", "short", 180),
        ("quiet", "long", 60),
        ("quiet", "short", 60),
    ]
    take(state, score, [310.0, 370.0], slice="busy")
    assert [(w.slice, w.window) for w in state.report(1.0, ready=True).windows] == [
        ("busy", "long"),
        ("busy", "short"),
        ("quiet", "long"),
    ]
    take(state, score, [1000.0], slice="other")
    assert state.report(1.0, ready=True).windows == ()


def test_a_snapshot_stays_as_it_was(new_state: Callable[..., State], score: Score, plain: Any) -> None:
    """A scrape that is still reading an old snapshot does not see it change."""
    state = new_state()
    take(state, score, [0.0, 60.0, 120.0])
    before = state.report(1.0, ready=True)
    then = plain(before)
    take(state, score, [1.0, 400.0])
    assert plain(before) == then
    assert plain(state.report(2.0, ready=False)) != then


def test_a_snapshot_says_when_and_what(new_state: Callable[..., State]) -> None:
    """Time, heartbeat and readiness are those given; without a checkpoint its time is NaN."""
    report = new_state().report(17.0, ready=True)
    assert (report.time, report.heartbeat, report.ready) == (17.0, 17.0, True)
    assert report.upkeep.last_checkpoint != report.upkeep.last_checkpoint
    assert (report.version, report.info.model) == ("0", "sentiment")


def test_a_record_without_finite_outputs_is_discarded(new_state: Callable[..., State], score: Score) -> None:
    """A task model that gives NaN for one text costs that record only, under its own reason."""
    state = new_state()
    records = (Record("1", "film", HOUR), Record("2", "no numbers", HOUR), Record("3", "plot", HOUR))
    batch = Batch(records, positions={"file": 3})
    state.receive(batch)
    state.add(records, score(records))
    counts = state.report(1.0, ready=True).counts
    assert (counts.processed, counts.discarded["scoring_failed"], counts.in_flight) == (2, 1, 0)
    (pane,) = state.windows.panes.values()
    assert sorted(pane.sample.ids) == ["1", "3"]


SAID = DropEstimate(3, 0.9, "", Interval(), Interval(), {}, {}, inside_domains=True, outside=())


def estimation(*windows: tuple[str, str, float]) -> Estimation:
    """Estimates of these windows, each given by slice, name and end after the hour."""
    made = tuple(WindowEstimate(name, window, HOUR + end, 9.0, SAID) for name, window, end in windows)
    return Estimation(estimates=made, missed=2, last_success=dict.fromkeys((name for name, *_ in windows), 9.0))


def shown(state: State, told: Estimation) -> list[tuple[str, str]]:
    """Which windows' estimates a snapshot shows."""
    report = state.report(1.0, ready=True, beside=Beside(told))
    assert report.estimation.missed == 2
    return [(each.slice, each.window) for each in report.estimation.estimates]


def test_an_estimate_leaves_with_its_slice(new_state: Callable[..., State], score: Score) -> None:
    """Estimates are shown of windows that are reported and no others; so is when a slice was last estimated."""
    state = new_state()
    take(state, score, [0.0], slice="quiet")
    take(state, score, [130.0], slice="busy")
    told = estimation(("quiet", "short", 60), ("quiet", "long", 60), ("busy", "short", 180), ("gone", "long", 60))
    assert shown(state, told) == [("quiet", "short"), ("quiet", "long")]
    take(state, score, [310.0, 370.0], slice="busy")
    assert shown(state, told) == [("quiet", "long"), ("busy", "short")]
    found = state.report(1.0, ready=True, beside=Beside(told)).estimation
    assert found.last_success == {"quiet": 9.0, "busy": 9.0}
    take(state, score, [5000.0], slice="other")
    assert shown(state, told) == []
    assert state.report(1.0, ready=True, beside=Beside(told)).estimation.last_success == {}


def test_an_estimate_that_is_not_followed_by_another_disappears(
    new_state: Callable[..., State], score: Score
) -> None:
    """While a slice is still reported, the estimate of a window that is all over is no longer shown."""
    state, told = new_state(), estimation(("default", "short", 60), ("default", "long", 60))
    seen = []
    for minute in range(10):
        take(state, score, [60.0 * minute])
        seen.append({window for _, window in shown(state, told)})
    # The first minute is over once a record of the third comes.
    assert seen == [set()] * 2 + [{"short", "long"}] * 4 + [{"long"}] * 3 + [set()]


def test_a_snapshot_without_estimates_has_none(new_state: Callable[..., State]) -> None:
    """Nothing was estimated, nothing failed, nothing runs."""
    found = new_state().report(1.0, ready=True).estimation
    assert (found.estimates, found.failures, found.missed) == ((), {}, 0)
    assert found.running_since != found.running_since


def half(name: str) -> Half:
    """A request that waits."""
    return Half(Kind.REQUEST, name, {"text": name}, 1.0, name)


def test_a_state_rolled_back_is_as_it_was_confirmed(
    new_state: Callable[..., State], score: Score, plain: Any
) -> None:
    """Panes, seal, positions, halves and ids go back together; the changed panes are saved again."""
    state, same = new_state(), new_state()
    for each in (state, same):
        take(each, score, [0.0, 30.0, 70.0], slice="a")
        each.pairing.join(half("kept"), 0.0)
        each.seen.add("kept")
        each.confirm()
    state.windows.take_changed()
    take(state, score, [71.0, 75.0, 200.0, 400.0], slice="a")
    take(state, score, [410.0], slice="b")
    state.pairing.join(half("gone"), 0.0)
    state.seen.add("gone")
    state.positions["file"] = 99
    state.roll_back(0.0)
    assert plain(dict(state.windows.panes)) == plain(dict(same.windows.panes))
    assert (state.windows.sealed_until, state.positions) == (same.windows.sealed_until, same.positions)
    assert (state.pairing.snapshot(), state.seen.snapshot()) == (same.pairing.snapshot(), same.seen.snapshot())
    assert {("a", HOUR + 60), ("b", HOUR + 360)} <= set(state.windows.take_changed())
    for each in (state, same):
        take(each, score, [80.0, 500.0], slice="b")
    assert plain(dict(state.windows.panes)) == plain(dict(same.windows.panes))


def test_what_is_rolled_back_stays_in_the_balance(new_state: Callable[..., State], score: Score) -> None:
    """Records that another replica counts were processed here too; halves that are given up are discarded."""
    state = new_state()
    state.pairing.join(half("kept"), 0.0)
    state.resume()
    state.pairing.join(half("gone"), 0.0)
    state.receive(Batch(waiting=1))
    take(state, score, [0.0, 30.0])
    assert state.report(1.0, ready=True).counts.balanced
    state.roll_back(0.0)
    counts = state.report(9.0, ready=True).counts
    assert counts.balanced
    assert (counts.in_flight, counts.processed, counts.discarded["partition_lost"]) == (1, 2, 1)


def test_letters_are_in_flight_until_they_are_kept(new_state: Callable[..., State]) -> None:
    """A message that cannot be used counts as dead-lettered once it is kept elsewhere, not before."""
    state = new_state()
    letters = (DeadLetter(Message(b"{", "t:0:1", 1.0), "not_json", 2),)
    state.receive(Batch(letters=letters, labels=(Label("7", "negative", 1.0),)))
    before = state.report(1.0, ready=True).counts
    state.delivered(letters)
    after = state.report(1.0, ready=True).counts
    assert (before.balanced, before.in_flight, before.dead_lettered["not_json"]) == (True, 2, 0)
    assert (after.balanced, after.in_flight, after.dead_lettered["not_json"], after.labels) == (True, 0, 2, 1)
    assert state.take_labels() == [Label("7", "negative", 1.0)]
    assert state.take_labels() == []


def test_batches_are_folded_together_and_soon(new_state: Callable[..., State], score: Score) -> None:
    """Records wait in flight for the fold: until enough have come, half a second is over, or someone looks."""
    state = new_state()
    take(state, score, [0.0])  # seals what came before, which folds
    take(state, score, [0.5])
    assert state.report(1.0, ready=True).counts.in_flight == 0
    take(state, score, [1.0])
    assert state.report(1.1, ready=True).counts.in_flight == 1
    assert state.report(1.6, ready=True).counts.in_flight == 0
    take(state, score, [2.0])
    assert sum(pane.tally.items for pane in state.windows.panes.values()) == 4
    assert state.report(1.7, ready=True).counts.in_flight == 0
    take(state, score, [float(row) / FOLDED for row in range(FOLDED)])
    assert state.report(1.8, ready=True).counts.in_flight == 0

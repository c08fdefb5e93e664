"""Windows: merged panes of event time, the same as recomputing them from the raw records."""

# Fixtures that are functions are typed as little as pytest types them.
# ruff: noqa: ANN401, PLR0913, PLR0917

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.batch import Batch
from agent.config import WindowsConfig
from agent.panes import DEPTH_EDGES, P_EDGES, Pane, Tally
from agent.records import Record
from agent.sample import Sample
from agent.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.report import WindowReport
    from agent.scorer import Scored
    from agent.state import State

MINUTE = 60
HOUR = 1_767_225_600  # a whole hour since the epoch
PATIENT = WindowsConfig(pane=60, short=180, long=360, min_items=3, lateness=3600)
HASTY = WindowsConfig(pane=60, short=180, long=360, min_items=3, lateness=30)

# When, in which slice and with which text: up to half an hour, with gaps.
MOMENTS = st.lists(
    st.tuples(st.integers(0, 1800), st.sampled_from(["a", "b", "c", None]), st.integers(0, 3)),
    min_size=1,
    max_size=40,
)
Moments = list[tuple[int, str | None, int]]


def records_of(moments: Moments) -> list[Record]:
    """One record a moment."""
    return [
        Record(f"id-{row}", f"good film {text}", float(HOUR + time), slice=name)
        for row, (time, name, text) in enumerate(moments)
    ]


@pytest.fixture(scope="session")
def play(score: Callable[[Sequence[Record]], Scored]) -> Callable[..., list[WindowReport]]:
    """Runs records through a state in batches of this size; the windows in the order they closed."""

    def play(state: State, records: Sequence[Record], size: int = 5, *, finish: bool = True) -> list[WindowReport]:
        closed: list[WindowReport] = []
        for start in range(0, len(records), size):
            batch = Batch(tuple(records[start : start + size]))
            state.receive(batch)
            state.add(batch.records, score(batch.records))
            closed += state.close_windows(0.0)
        return closed + (state.close_windows(0.0, finished=True) if finish else [])

    return play


@pytest.fixture(scope="session")
def recomputed(score: Callable[[Sequence[Record]], Scored]) -> Callable[..., list[dict[str, Any]]]:
    """What the windows of these records must say, from the records alone; slices `a`, `b` and the others."""

    def slice_of(record: Record) -> str:
        return record.slice or "default"

    def recomputed(records: Sequence[Record], config: WindowsConfig) -> list[dict[str, Any]]:
        ends = {(int(r.time // config.pane + 1) * int(config.pane), slice_of(r)) for r in records}
        expected = []
        for end, name in sorted(ends):
            for window, length in (("short", config.short), ("long", config.long)):
                inside = [r for r in records if end - length <= r.time < end and slice_of(r) == name]
                scored = score(inside)
                enough = len(inside) >= config.min_items
                expected.append(
                    {
                        "slice": name,
                        "window": window,
                        "start": end - length,
                        "end": end,
                        "items": len(inside),
                        "enough": enough,
                        "ood_ratio": {d: float((p <= 0.05).mean()) for d, p in scored.p.items()} if enough else {},
                        "depth_mean": float(scored.scores["depth"].mean()) if enough else math.nan,
                        "q": float(scored.ranks.mean()) if enough else math.nan,
                        "confidence_mean": float(scored.confidence.mean()) if enough else math.nan,
                        "classes": {
                            label: int((scored.predicted == index).sum())
                            for index, label in enumerate(("negative", "positive"))
                        },
                    }
                )
        return expected

    return recomputed


def compare(closed: list[WindowReport], expected: list[dict[str, Any]]) -> None:
    """The same windows in the same order, counts and ratios exactly, means to the last unit of the sums."""
    assert len(closed) == len(expected)
    for report, facts in zip(closed, expected, strict=True):
        for name, value in facts.items():
            close = isinstance(value, float)
            want = pytest.approx(value, abs=1e-9, rel=0, nan_ok=True) if close else value
            assert getattr(report, name) == want, (name, report)


@settings(max_examples=100)
@given(MOMENTS, st.integers(1, 50))
def test_windows_of_shuffled_records_are_those_of_the_raw_records(
    new_state: Callable[..., State],
    play: Any,
    recomputed: Any,
    moments: Moments,
    size: int,
) -> None:
    """In any order and any batches, with patience, every window equals its recomputation from the records."""
    records = records_of(moments)
    state = new_state(PATIENT)
    compare(play(state, records, size), recomputed(records, PATIENT))
    assert state.report(0.0, ready=True).counts.discarded["late"] == 0


@settings(max_examples=100)
@given(MOMENTS, st.integers(1, 10))
def test_windows_of_sorted_records_are_those_of_the_raw_records(
    new_state: Callable[..., State],
    play: Any,
    recomputed: Any,
    moments: Moments,
    size: int,
) -> None:
    """In order of time nothing is late, however soon panes are sealed, and every window is as recomputed."""
    records = sorted(records_of(moments), key=lambda record: record.time)
    state = new_state(HASTY)
    compare(play(state, records, size), recomputed(records, HASTY))
    assert state.report(0.0, ready=True).counts.discarded["late"] == 0


@settings(max_examples=100)
@given(MOMENTS, st.integers(1, 10))
def test_late_records_are_counted_once_and_change_nothing(
    new_state: Callable[..., State],
    play: Any,
    recomputed: Any,
    moments: Moments,
    size: int,
) -> None:
    """What came too late for its pane is in no window and once in the count; the rest is as if it never came."""
    records = records_of(moments)
    state = new_state(HASTY)
    closed = play(state, records, size)
    on_time, newest = [], 0.0
    for record in records:  # one by one: how they were cut into batches must not matter
        if record.time >= (newest - 30) // 60 * 60:
            on_time.append(record)
            newest = max(newest, record.time)
    compare(closed, recomputed(on_time, HASTY))
    counts = state.report(0.0, ready=True).counts
    assert counts.discarded["late"] == len(records) - len(on_time)
    assert (counts.processed, counts.in_flight, counts.balanced) == (len(on_time), 0, True)


def test_windows_end_with_their_panes(new_state: Callable[..., State], play: Any) -> None:
    """Windows end at multiples of the pane since the epoch and span their configured length."""
    closed = play(new_state(), records_of([(75, None, 0)]))
    assert [(report.window, report.start - HOUR, report.end - HOUR) for report in closed] == [
        ("short", -60, 120),
        ("long", -240, 120),
    ]


@pytest.mark.parametrize(("newest", "sealed"), [(89.9, 0), (90.0, 60), (149.9, 60), (150.0, 120)])
def test_a_pane_is_sealed_once_a_record_is_late_enough(
    new_state: Callable[..., State],
    score: Any,
    newest: float,
    sealed: int,
) -> None:
    """A pane waits until a record is exactly `lateness` past its end."""
    state = new_state(HASTY)
    records = (Record("1", "film", HOUR + 1.0), Record("2", "film", HOUR + newest))
    state.add(records, score(records))
    state.close_windows(0.0)
    assert state.windows.sealed_until == HOUR + sealed
    assert state.windows.admit(HOUR + 59.0) == (sealed < 60)
    assert state.windows.admit(HOUR + 60.0) == (sealed < 120)


def test_lateness_is_one_pane_by_default(new_state: Callable[..., State], score: Any) -> None:
    """Without a setting a pane waits for another pane's length of event time."""
    state = new_state()
    for time, late in ((HOUR + 119.0, False), (HOUR + 120.0, True)):
        records = (Record(f"{time}", "film", time),)
        state.add(records, score(records))
        state.close_windows(0.0)
        assert state.windows.admit(HOUR + 59.0) is not late


def test_a_gap_in_time_closes_no_windows(new_state: Callable[..., State], play: Any) -> None:
    """Hours without records give no reports, and nothing from before the gap is in the windows after it."""
    closed = play(new_state(), records_of([(0, None, 0), (7200, None, 0)]), size=1)
    assert [(report.end - HOUR, report.items) for report in closed] == [(60, 1), (60, 1), (7260, 1), (7260, 1)]


def test_slices_are_kept_apart(new_state: Callable[..., State], play: Any) -> None:
    """A slice's window holds its own records, and only slices with records in the last pane are reported."""
    closed = play(new_state(), records_of([(0, "a", 0), (1, "b", 0), (2, "a", 0), (61, "a", 0)]))
    short = [(report.end - HOUR, report.slice, report.items) for report in closed if report.window == "short"]
    assert short == [(60, "a", 2), (60, "b", 1), (120, "a", 3)]


@pytest.mark.parametrize(("items", "enough"), [(1, False), (2, False), (3, True), (4, True)])
def test_too_few_items_give_no_ratios(
    new_state: Callable[..., State],
    play: Any,
    items: int,
    enough: bool,  # noqa: FBT001
) -> None:
    """Below `min_items` every mean is NaN and there is no ratio; from there on none is NaN."""
    closed = play(new_state(), records_of([(row, None, row) for row in range(items)]))
    for report in closed:
        means = (report.depth_mean, report.q, report.confidence_mean, *report.ood_ratio.values())
        assert report.enough is enough
        assert len(report.ood_ratio) == (5 if enough else 0)
        assert [math.isnan(mean) for mean in means] == [not enough] * len(means)
        assert sum(report.classes.values()) == items


def test_a_stream_finishes_once(new_state: Callable[..., State], play: Any) -> None:
    """Finishing says the windows that are left; it seals none, so a file that grows goes on where it ended."""
    state = new_state()
    assert len(play(state, records_of([(0, None, 0), (61, None, 0)]))) == 4
    assert state.windows.admit(HOUR + 119.0)
    (short, long) = play(state, records_of([(62, None, 0)]))[-2:]
    assert (short.end, short.items, long.items) == (HOUR + 120, 3, 3)


def test_an_empty_stream_finishes(new_state: Callable[..., State]) -> None:
    """No record, no window."""
    assert new_state().close_windows(0.0, finished=True) == []


def small_pane(start: int) -> Pane:
    """A pane of one item."""
    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    p_counts = np.eye(1, len(P_EDGES), dtype=np.int64)
    tally = Tally(1, 0, one, p_counts, none, np.eye(1, len(DEPTH_EDGES), dtype=np.int64)[0], 0, 0, 0, one)
    return Pane("default", start, tally, Sample.of([str(start)], np.ones((1, 1)), np.ones((1, 2))))


def test_memory_is_bounded_over_ten_thousand_panes() -> None:
    """Only panes that a window can still reach are kept, and those given up are named once as changed."""
    windows = Windows(WindowsConfig(pane=60, short=120, long=600, min_items=1), ("only",), ("knn",))
    closed, named = 0, []
    for number in range(10_000):
        start = HOUR + number * MINUTE
        windows.admit(start + 1.0)
        windows.add([small_pane(start)])
        closed += len(windows.close())
        assert len(windows.panes) <= 12
        named += [key for key in windows.take_changed() if key not in windows.panes]
    assert closed == 2 * 9_998
    assert len(named) == len(set(named)) == 10_000 - len(windows.panes)


@settings(max_examples=20)
@given(MOMENTS, st.integers(1, 40), st.integers(1, 6))
def test_a_restored_state_goes_on_as_if_never_stopped(
    new_state: Callable[..., State],
    play: Any,
    plain: Any,
    moments: Moments,
    cut: int,
    size: int,
) -> None:
    """Panes and seal taken over between two batches give the windows of one run."""
    records = records_of(moments)
    cut -= cut % size
    whole = play(new_state(HASTY), records, size)
    first, second = new_state(HASTY), new_state(HASTY)
    closed = play(first, records[:cut], size, finish=False)
    for name in first.slices.known:
        second.slices.name(name)
    second.windows.restore(first.windows.panes.values(), first.windows.sealed_until)
    assert plain(closed + play(second, records[cut:], size)) == plain(whole)

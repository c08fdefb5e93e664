"""Estimates beside the loop: what breaks, hangs or takes long costs nobody else, and shows."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from itertools import count
from pathlib import Path
from threading import Event, Thread, active_count, current_thread, main_thread
from typing import TYPE_CHECKING

import numpy as np
import pytest
from structlog.testing import capture_logs

from agent.estimate_job import EstimateJob
from agent.interval import Interval
from agent.loop import Clocks
from agent.panes import DEPTH_EDGES, P_EDGES, Pane, Tally
from agent.report import DropEstimate
from agent.sample import Sample
from agent.window_contents import EndedWindow

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.report import WindowEstimate
    from agent.window_contents import Window

HOUR = 1_767_225_600
# What no test should come near: it only bounds how long a broken one takes.
LONG = 20.0
HOURLY = 3600.0
ROOT = Path(__file__).parents[2]
HANGS = """
import sys
from threading import Event
from tests.agent.test_estimate_job import EstimateJob, Clocks, window

reached = Event()

def estimate(window):
    reached.set()
    Event().wait()

with EstimateJob(estimate, 60.0, Clocks()) as job:
    job.offer((window(),))
    assert reached.wait(20)
print("over")
"""


def window(name: str = "default", kind: str = "short", end: int = HOUR, items: int = 1) -> EndedWindow:
    """A window of one pane that counts so many items and keeps one of them."""
    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    p_counts = np.zeros((1, len(P_EDGES)), np.int64)
    depth_counts = np.zeros(len(DEPTH_EDGES), np.int64)
    tally = Tally(items, 0, one, p_counts, none, depth_counts, 0, 0, 0, one)
    pane = Pane(name, end - 60, tally, Sample.of(["a"], np.ones((1, 2)), np.ones((1, 2))))
    return EndedWindow(name, kind, end - 60, end, (pane,))


def told(found: Window) -> DropEstimate:
    """An estimate that says which window it was made of: its drop is the window's items, in points."""
    drop = Interval(found.tally.items / 100, 0.0, 1.0)
    return DropEstimate(
        found.tally.items, 0.9, "", drop, Interval(0.9, 0.8, 1.0), {}, {}, inside_domains=True, outside=()
    )


def breaks_on(slices: dict[str, Exception]) -> Callable[[Window], DropEstimate]:
    """Estimates that raise for these slices."""

    def estimate(found: Window) -> DropEstimate:
        if found.slice in slices:
            raise slices[found.slice]
        return told(found)

    return estimate


def until(condition: Callable[[], object]) -> None:
    """Wait for something that another thread does; a test that waits for ever fails instead."""
    for _ in range(int(LONG / 0.01)):
        if condition():
            return
        Event().wait(0.01)
    pytest.fail("it did not happen")


def keys(made: list[WindowEstimate]) -> list[tuple[str, str, float]]:
    """Which windows these estimates are of."""
    return [(each.slice, each.window, each.end) for each in made]


def test_a_pass_estimates_every_window_on_offer() -> None:
    """Each window is estimated from its own merged panes, told once, and shown with when it was made."""
    times = count(100)
    job = EstimateJob(told, HOURLY, Clocks(lambda: 0.0, lambda: float(next(times))))
    job.offer((window("b", items=2), window("a", "long", items=3), window("a", items=4)))
    job.run_pass()
    made = job.take()
    assert keys(made) == [("a", "long", HOUR), ("a", "short", HOUR), ("b", "short", HOUR)]
    assert [each.estimate.n for each in made] == [3, 4, 2]
    assert job.take() == []
    assert job.latest.estimates == tuple(made)
    assert [each.time for each in made] == [101.0, 103.0, 105.0]
    assert job.latest.last_success == {"a": 103.0, "b": 105.0}
    assert (sum(job.latest.seconds.counts), job.latest.missed) == (3, 0)


def test_a_newer_window_takes_the_place_of_an_older_one() -> None:
    """Of a slice's windows with one name only the newest is estimated and shown."""
    job = EstimateJob(told, HOURLY, Clocks())
    job.offer((window(end=HOUR, items=1),))
    job.offer((window(end=HOUR + 60, items=2),))
    job.run_pass()
    assert keys(job.take()) == [("default", "short", HOUR + 60)]
    job.offer((window(end=HOUR + 120, items=3),))
    job.run_pass()
    assert [each.end for each in job.latest.estimates] == [HOUR + 120]


@pytest.mark.parametrize(
    ("again", "done"),
    [(window(), False), (window(items=2), True), (window(end=HOUR + 60), True), (window(kind="long"), True)],
)
def test_the_same_window_is_not_estimated_again(again: EndedWindow, done: bool) -> None:  # noqa: FBT001
    """A window with the same end and number of items is done once; with another of either it is done again."""
    job = EstimateJob(told, HOURLY, Clocks())
    job.offer((window(),))
    job.run_pass()
    job.take()
    job.offer((again,))
    job.run_pass()
    assert bool(job.take()) is done


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "memory"),
        (ZeroDivisionError(), "arithmetic"),
        (np.linalg.LinAlgError("singular"), "arithmetic"),
        (KeyError("pad"), "error"),
    ],
)
def test_an_estimate_that_breaks_costs_only_its_own_window(error: Exception, reason: str) -> None:
    """The failure is counted under its reason, every other slice has its estimate, and this one has none."""
    job = EstimateJob(breaks_on({"b": error}), HOURLY, Clocks())
    job.offer((window("a"), window("b"), window("c")))
    job.run_pass()
    assert keys(job.take()) == [("a", "short", HOUR), ("c", "short", HOUR)]
    assert job.latest.failures == {"memory": 0, "arithmetic": 0, "error": 0} | {reason: 1}
    assert job.latest.last_success.keys() == {"a", "c"}
    assert math.isnan(job.latest.running_since)
    assert sum(job.latest.seconds.counts) == 3


def test_a_broken_estimate_takes_the_older_one_away() -> None:
    """What is shown is of the newest window or nothing; that the slice once had an estimate is still known."""
    broken: dict[str, Exception] = {}
    job = EstimateJob(breaks_on(broken), HOURLY, Clocks(epoch=lambda: 5.0))
    job.offer((window(),))
    job.run_pass()
    broken["default"] = ValueError()
    job.offer((window(end=HOUR + 60),))
    job.run_pass()
    assert job.latest.estimates == ()
    assert job.latest.last_success == {"default": 5.0}


def test_a_failure_is_logged_once_without_its_message() -> None:
    """The log names the slice, the error and the place once, until it has worked again; never the message."""
    broken: dict[str, Exception] = {"a": ValueError("a text of a user")}
    job = EstimateJob(breaks_on(broken), HOURLY, Clocks())
    with capture_logs() as lines:
        for end in (HOUR, HOUR + 60):
            job.offer((window("a", end=end),))
            job.run_pass()
        assert len(lines) == 1
        found = broken.pop("a")
        job.offer((window("a", end=HOUR + 120),))
        job.run_pass()
        broken["a"] = found
        job.offer((window("a", end=HOUR + 180),))
        job.run_pass()
    assert [line["event"] for line in lines] == ["estimate_failed"] * 2
    assert {key: lines[0][key] for key in ("slice", "window", "error")} == {
        "slice": "a",
        "window": "short",
        "error": "ValueError",
    }
    assert lines[0]["where"].startswith("test_estimate_job.py:")
    assert "a text of a user" not in str(lines)


def test_the_first_window_does_not_wait() -> None:
    """The scheduler makes the first estimate at once, however seldom the others are due, in its own thread."""
    threads: list[Thread] = []

    def estimate(found: Window) -> DropEstimate:
        threads.append(current_thread())
        return told(found)

    with EstimateJob(estimate, HOURLY, Clocks()) as job:
        job.offer((window(),))
        until(lambda: job.latest.estimates)
    assert threads != [main_thread()]
    assert threads[0].daemon


def test_later_windows_come_when_they_are_due() -> None:
    """Every `every` seconds the scheduler estimates what was offered meanwhile."""
    with EstimateJob(told, 0.02, Clocks()) as job:
        for step in range(3):
            job.offer((window(end=HOUR + 60 * step),))
            until(lambda step=step: keys(job.take()) == [("default", "short", HOUR + 60 * step)])
    assert job.latest.missed == 0


def test_a_slow_estimate_is_seen_in_the_missed_ones() -> None:
    """While one takes longer than `every`, nothing runs beside it, due times are counted, and it goes on after."""
    release, running, most = Event(), [0], [0]

    def estimate(found: Window) -> DropEstimate:
        running[0] += 1
        most[0] = max(most[0], running[0])
        assert release.wait(LONG)
        running[0] -= 1
        return told(found)

    with EstimateJob(estimate, 0.02, Clocks()) as job:
        job.offer((window(end=HOUR),))
        until(lambda: job.latest.missed >= 2)
        job.offer((window(end=HOUR + 60),))
        job.offer((window(end=HOUR + 120),))
        release.set()
        until(lambda: len(job.latest.estimates) == 1 and job.latest.estimates[0].end == HOUR + 120)
        assert keys(job.take()) == [("default", "short", HOUR), ("default", "short", HOUR + 120)]
    assert most == [1]
    assert job.latest.failures == {"memory": 0, "arithmetic": 0, "error": 0}


def test_a_hung_estimate_is_seen_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's side answers as before, the start of the hung one is shown, and the end waits only its grace."""
    monkeypatch.setattr("agent.estimate_job.GRACE", 0.05)
    release, reached = Event(), Event()

    def estimate(found: Window) -> DropEstimate:
        reached.set()
        assert release.wait(LONG)
        return told(found)

    with capture_logs() as lines, EstimateJob(estimate, 0.02, Clocks(epoch=lambda: 17.0), patience=0.1) as job:
        job.offer((window(),))
        assert reached.wait(LONG)
        for end in range(HOUR, HOUR + 600, 60):
            job.offer((window("busy", end=end),))
            assert job.take() == []
        assert job.latest.running_since == 17.0
        assert job.latest.last_success == {}
        waits = 0
        while job.unfinished(Event()):
            waits += 1
        assert waits < 10
    assert [line["event"] for line in lines] == ["estimate_abandoned"]
    release.set()


def test_a_hung_estimate_does_not_keep_the_process_alive() -> None:
    """An agent whose estimate never comes back ends by itself, within its grace."""
    done = subprocess.run(
        [sys.executable, "-c", HANGS], cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONG * 2
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "over"), done.stderr


def test_the_last_windows_are_waited_for() -> None:
    """Windows offered while others are being estimated are done before the wait is over, though not yet due."""
    release, reached = Event(), Event()

    def estimate(found: Window) -> DropEstimate:
        reached.set()
        assert release.wait(LONG)
        return told(found)

    stop = Event()
    with EstimateJob(estimate, HOURLY, Clocks()) as job:
        assert not job.unfinished(stop)
        job.offer((window(),))
        assert reached.wait(LONG)
        job.offer((window(end=HOUR + 60), window("other")))
        assert job.unfinished(stop)
        release.set()
        while job.unfinished(stop):
            pass
        assert [each.end for each in job.latest.estimates] == [HOUR + 60, HOUR]
        assert job.latest.missed == 0


def test_a_stop_ends_the_wait() -> None:
    """Told to stop, nobody waits for estimates, and those not begun are not made."""
    release, reached, asked = Event(), Event(), list[str]()

    def estimate(found: Window) -> DropEstimate:
        asked.append(found.slice)
        reached.set()
        assert release.wait(LONG)
        return told(found)

    stop = Event()
    with EstimateJob(estimate, HOURLY, Clocks()) as job:
        job.offer((window("a"), window("b")))
        assert reached.wait(LONG)
        stop.set()
        assert not job.unfinished(stop)
        job._closing = True
        release.set()
    assert asked == ["a"]


def test_what_kills_a_whole_pass_is_counted() -> None:
    """An exception that no estimate should raise, such as SystemExit, is a failure, and the schedule goes on."""
    broken: dict[str, BaseException] = {"a": SystemExit(3)}

    def estimate(found: Window) -> DropEstimate:
        if found.slice in broken:
            raise broken[found.slice]
        return told(found)

    with EstimateJob(estimate, 0.02, Clocks()) as job:
        job.offer((window("a"), window("b")))
        until(lambda: job.latest.failures["error"] == 1)
        until(lambda: keys(job.take()) == [("b", "short", HOUR)])
        assert math.isnan(job.latest.running_since)


def test_nothing_is_left_after_the_end() -> None:
    """When the agent ends, so do the job's threads, whether or not it ever had anything to do."""
    before = active_count()
    with EstimateJob(told, HOURLY, Clocks()):
        pass
    with EstimateJob(told, HOURLY, Clocks()) as job:
        job.offer((window(),))
        until(lambda: job.latest.estimates)
    assert active_count() == before


def test_nothing_but_the_log_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    """The scheduler's own complaints, of missed calls and broken ones, stay out of the lines of JSON."""
    script = "from tests.agent.test_estimate_job import *; test_what_kills_a_whole_pass_is_counted(); "
    script += "test_a_slow_estimate_is_seen_in_the_missed_ones()"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False, timeout=LONG * 2)
    assert done.returncode == 0
    assert capfd.readouterr().err == ""


def test_a_snapshot_is_immutable() -> None:
    """What a scrape holds on to cannot be changed, and does not change."""
    job = EstimateJob(told, HOURLY, Clocks())
    job.offer((window(),))
    job.run_pass()
    held = job.latest
    copy = replace(held)
    with pytest.raises(FrozenInstanceError):
        held.missed = 1  # type: ignore[misc] # that is the test
    with pytest.raises(TypeError):
        held.failures["error"] = 1  # type: ignore[index] # as above
    with pytest.raises(TypeError):
        held.last_success["default"] = 1.0  # type: ignore[index] # as above
    job.offer((window(end=HOUR + 60), window("other")))
    job.run_pass()
    assert held == copy
    assert [each.end for each in held.estimates] == [HOUR]
    assert held.last_success.keys() == {"default"}


def test_snapshots_are_whole_while_windows_pour_in() -> None:
    """However fast windows are offered, every snapshot's numbers belong together and no estimate is told twice."""
    slices, seen = "abc", list[tuple[str, str, float]]()
    torn = list[object]()
    failing = breaks_on({"c": ValueError()})
    with EstimateJob(failing, 0.001, Clocks()) as job:
        for step in range(1, 1500):
            job.offer(tuple(window(name, end=HOUR + 60 * step, items=step) for name in slices))
            seen += keys(job.take())
            now = job.latest
            made = {each.slice: each for each in now.estimates}
            if (
                made.keys() != now.last_success.keys()
                or any(each.time != now.last_success[name] for name, each in made.items())
                or any(each.end != HOUR + 60 * each.estimate.n for each in now.estimates)
                or list(made) != sorted(made)
                or sum(now.seconds.counts) < now.failures["error"]
            ):
                torn.append(now)
        while job.unfinished(Event()):
            pass
        seen += keys(job.take())
    assert not torn
    assert len(set(seen)) == len(seen)
    last = job.latest
    assert [each.end for each in last.estimates] == [HOUR + 60 * 1499] * 2
    assert sum(last.seconds.counts) == len(seen) + last.failures["error"]

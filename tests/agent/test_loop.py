"""The loop: its order, its end, and that a crash at any step changes nothing."""

# Fixtures that are functions are typed as little as pytest types them.
# ruff: noqa: ANN401

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from agent.batch import Batch
from agent.checkpoints import Checkpoints, NoCheckpoints
from agent.errors import ServiceError
from agent.estimate_job import EstimateJob
from agent.interval import Interval
from agent.loop import AT_ONCE, Clocks, Listeners, Loop
from agent.messages import DeadLetter, Message, NoDeadLetters
from agent.no_estimates import NoEstimates
from agent.reasons import Reason
from agent.records import Record
from agent.report import DropEstimate, Report, SourceStatus, Upkeep, WindowEstimate, WindowReport
from agent.state_store.pane_blobs import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from agent.scorer import Scored
    from agent.state import State
    from agent.window_contents import Window

HOUR = 1_767_225_600
# Two late records, a gap, three slices, ids that come twice; None is a row that is rejected.
TIMES = (
    0,
    10,
    70,
    65,
    130,
    200,
    20,
    210,
    None,
    None,
    1000,
    1010,
    205,
    1075,
    1140,
    None,
    1150,
    1205,
    1300,
    1310,
    1320,
)
STREAM = [
    time if time is None else Record(f"id-{row % 13}", "good film", float(HOUR + time), slice="abc"[row % 3])
    for row, time in enumerate(TIMES)
]


class CrashError(Exception):
    """The process is gone."""


@dataclass
class Steps:
    """Counts steps of input and output and crashes at one of them; the names of the steps tell the order."""

    crash_at: int = -1
    taken: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        """One more step."""
        self.taken.append(name)
        if len(self.taken) == self.crash_at:
            raise CrashError(name)


@dataclass
class Source:
    """Rows of a list, two a read; in one read both are rejected."""

    step: Steps
    committed: dict[str, int] = field(default_factory=dict)
    position: int = 0

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on from the position."""
        self.step("seek")
        self.position = positions.get("file", 0)

    def read(self) -> Batch:
        """The next two rows."""
        self.step("read")
        rows = STREAM[self.position : self.position + 2]
        self.position += len(rows)
        records = tuple(row for row in rows if row is not None)
        rejected = {Reason.NOT_JSON: len(rows) - len(records)}
        positions = {"file": self.position}
        return Batch(records, rejected, positions=positions, ended=self.position == len(STREAM))

    def commit(self, positions: Mapping[str, int]) -> bool:
        """Remember what is safely kept."""
        self.step("commit")
        self.committed = dict(positions)
        return True

    def drain(self) -> bool:
        """Rows can be read again."""
        return False

    def status(self) -> SourceStatus:
        """There is nothing to say."""
        return SourceStatus()

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class Store:
    """A store in memory: a save shows either whole or not at all."""

    step: Steps
    panes: dict[tuple[str, int], bytes] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=lambda: {"positions": {}, "slices": (), "sealed": 0})

    def due(self, now: float) -> bool:
        """At every second tick."""
        return int(now) % 2 == 0

    def save(self, state: State) -> None:
        """Write the changes beside the old content, then swap."""
        self.step("before save")
        panes = dict(self.panes)
        for key in state.windows.take_changed():
            panes.pop(key, None)
            if key in state.windows.panes:
                panes[key] = pack(state.windows.panes[key])
            self.step("within save")
        facts = {
            "positions": dict(state.positions),
            "slices": state.slices.known,
            "sealed": state.windows.sealed_until,
        }
        self.panes, self.facts = panes, facts
        self.step("after save")

    def upkeep(self) -> Upkeep:
        """There is nothing to say."""
        return Upkeep()

    def restore(self, state: State) -> None:
        """Into a fresh state."""
        state.positions.update(self.facts["positions"])
        for name in self.facts["slices"]:
            state.slices.name(name)
        panes = [unpack(*key, content) for key, content in self.panes.items()]
        state.windows.restore(panes, self.facts["sealed"])


class Impatient(Event):
    """Never set, and nobody waits for it."""

    def wait(self, timeout: float | None = None) -> bool:
        """Not at all."""
        del timeout
        return False


@dataclass
class Outcome:
    """What a run, or several after crashes, came to."""

    closed: list[WindowReport] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    panes: dict[Any, Any] = field(default_factory=dict)
    estimates: list[WindowEstimate] = field(default_factory=list)
    estimates_of: Any = None  # what makes them, if not NoEstimates


@pytest.fixture
def go(score: Callable[[Sequence[Record]], Scored]) -> Callable[..., None]:
    """Runs the loop with a ticking clock."""

    def go(state: State, source: Source, store: Any, outcome: Outcome, stop: Event | None = None) -> None:
        def scored(records: Sequence[Record]) -> Scored:
            source.step("score")
            return score(records)

        ticks = count()
        clocks = Clocks(lambda: float(next(ticks)), lambda: 17.0)
        listeners = Listeners(outcome.reports.append, outcome.closed.append, outcome.estimates.append)
        estimates = outcome.estimates_of or NoEstimates("no domains", clocks.epoch)
        letters = NoDeadLetters()
        Loop(source, scored, state, estimates, letters, store, listeners, stop or Impatient(), clocks).run()
        outcome.panes = dict(state.windows.panes)

    return go


def once(closed: Sequence[WindowReport], plain: Callable[[object], Any]) -> list[Any]:
    """The windows in the order they first closed: after a crash one may be told again, but never differently."""
    seen: dict[Any, Any] = {}
    for report in closed:
        facts = plain(report)
        assert seen.setdefault((report.slice, report.window, report.end), facts) == facts
    return list(seen.values())


def test_a_crash_at_any_step_changes_nothing(
    new_state: Callable[..., State], go: Callable[..., None], plain: Callable[[object], Any]
) -> None:
    """Crashed at each step of input or output and restarted, it ends with the panes and windows of one run."""
    steps, whole = Steps(), Outcome()
    go(new_state(), Source(steps), Store(steps), whole)
    assert set(steps.taken) == {"seek", "read", "score", "before save", "within save", "after save", "commit"}
    assert len(steps.taken) > 50
    for crash_at in range(1, len(steps.taken) + 1):
        dying, crashed = Steps(crash_at), Outcome()
        store = Store(dying)
        source = Source(dying)
        with pytest.raises(CrashError):
            go(new_state(), source, store, crashed)
        assert source.committed.get("file", 0) <= store.facts["positions"].get("file", 0)
        restarted = new_state()
        store.restore(restarted)
        store.step = Steps()
        go(restarted, Source(store.step), store, crashed)
        assert plain(crashed.panes) == plain(whole.panes), dying.taken[-1]
        assert once(crashed.closed, plain) == once(whole.closed, plain), dying.taken[-1]
        assert store.facts["positions"] == {"file": len(STREAM)}


def test_a_database_killed_at_any_moment_changes_nothing(
    new_state: Callable[..., State], go: Callable[..., None], plain: Callable[[object], Any], tmp_path: Path
) -> None:
    """The real store, interrupted inside SQLite at ever later moments, restores a whole checkpoint each time."""
    whole = Outcome()
    go(new_state(), Source(Steps()), NoCheckpoints(), whole)
    interrupted = 0
    for moment in count(1):
        path = tmp_path / str(moment) / "state.db"
        store, crashed = Checkpoints(path, 0, "me"), Outcome()
        # Called every 50 instructions of SQLite's machine; a true answer interrupts the statement.
        calls = count(1)
        store._database.set_progress_handler(lambda calls=calls, moment=moment: next(calls) >= moment, 50)
        source = Source(Steps())
        try:
            go(new_state(), source, store, crashed)
        except ServiceError as error:
            assert str(error) == f"state.path: {path} cannot be written: interrupted"  # noqa: PT017
            interrupted += 1
        else:
            break
        finally:
            store._database.close()
        again, restarted = Checkpoints(path, 0, "me"), new_state()
        again.restore(restarted)
        assert source.committed == restarted.positions
        go(restarted, Source(Steps()), again, crashed)
        again._database.close()
        assert plain(crashed.panes) == plain(whole.panes), moment
        assert once(crashed.closed, plain) == once(whole.closed, plain), moment
    assert interrupted > 10


def test_positions_are_committed_only_after_they_are_saved(
    new_state: Callable[..., State], go: Callable[..., None]
) -> None:
    """Every commit follows a whole save directly, and the last one is of the end of the stream."""
    steps = Steps()
    source = Source(steps)
    go(new_state(), source, Store(steps), Outcome())
    for place, name in enumerate(steps.taken):
        if name == "commit":
            assert steps.taken[place - 1] == "after save"
    assert steps.taken[0] == "seek"
    assert steps.taken[-1] == "commit"
    assert source.committed == {"file": len(STREAM)}


def test_a_stop_takes_effect_between_batches(new_state: Callable[..., State], go: Callable[..., None]) -> None:
    """Told to stop while it scores, the agent finishes that batch, saves it, commits it, and reads no other."""
    stop, steps, outcome = Event(), Steps(), Outcome()

    class Stopping(Source):
        def read(self) -> Batch:
            stop.set()
            return super().read()

    source = Stopping(steps)
    state = new_state()
    go(state, source, Store(steps), outcome, stop)
    steps_of_a_save = ["before save", "after save", "commit"]
    taken = [name for name in steps.taken if name != "within save"]
    assert taken == ["seek", "read", "score", *steps_of_a_save, *steps_of_a_save]
    assert state.positions == source.committed == {"file": 2}
    assert [report.ready for report in outcome.reports] == [True, True, False]
    assert outcome.closed == []


def test_a_stop_before_the_start_still_settles(new_state: Callable[..., State], go: Callable[..., None]) -> None:
    """Nothing is read, the state is saved, and the last snapshot is not ready."""
    stop, steps, outcome = Event(), Steps(), Outcome()
    stop.set()
    go(new_state(), Source(steps), Store(steps), outcome, stop)
    assert steps.taken == ["seek", "before save", "after save", "commit"]
    assert [report.ready for report in outcome.reports] == [False]


def test_empty_reads_keep_the_heart_beating(
    new_state: Callable[..., State], score: Callable[[Sequence[Record]], Scored]
) -> None:
    """While nothing comes, every read publishes a snapshot with a new heartbeat, and nothing is scored."""
    stop, epochs, reports = Event(), count(100), list[Any]()

    class Idle(Source):
        def read(self) -> Batch:
            self.step("read")
            if self.step.taken.count("read") == 5:
                stop.set()
            return Batch()

    def scored(records: Sequence[Record]) -> Scored:
        pytest.fail(f"asked to score {records}")
        return score(records)

    clocks = Clocks(lambda: 0.0, lambda: float(next(epochs)))
    listeners = Listeners(reports.append, reports.append)
    estimates = NoEstimates("no domains", lambda: 0.0)
    letters = NoDeadLetters()
    Loop(Idle(Steps()), scored, new_state(), estimates, letters, NoCheckpoints(), listeners, stop, clocks).run()
    beats = [report.heartbeat for report in reports]
    assert len(beats) == 6
    assert beats == sorted(set(beats))
    assert [report.ready for report in reports] == [True] * 5 + [False]


def test_every_snapshot_balances(new_state: Callable[..., State], go: Callable[..., None]) -> None:
    """At each publication received = processed + discarded + in flight, and at the end nothing is in flight."""
    outcome = Outcome()
    go(new_state(), Source(Steps()), NoCheckpoints(), outcome)
    assert all(report.counts.balanced for report in outcome.reports)
    counts = outcome.reports[-1].counts
    assert (counts.received["file"], counts.discarded["not_json"], counts.in_flight) == (21, 3, 0)
    assert counts.discarded["late"] == 2
    assert counts.processed == 16


def test_without_a_store_nothing_piles_up(new_state: Callable[..., State], go: Callable[..., None]) -> None:
    """An agent without `state` forgets which panes changed, whenever it would have saved them."""
    state = new_state()
    assert [NoCheckpoints(10.0).due(now) for now in (0.0, 1e9)] == [True, True]
    go(state, Source(Steps()), NoCheckpoints(), Outcome())
    assert state.windows.take_changed() == []


def test_each_new_estimate_is_told_after_its_window(
    new_state: Callable[..., State], go: Callable[..., None]
) -> None:
    """An estimate is told after the window it is of, and the snapshot that comes next shows it."""
    told: list[Any] = []

    class Told(list[Any]):
        def append(self, item: Any) -> None:
            super().append(item)
            told.append(item)

    outcome = Outcome(Told(), Told(), estimates=Told())
    go(new_state(), Source(Steps()), NoCheckpoints(), outcome)
    assert {made.estimate.reason for made in outcome.estimates} == {"no domains"}
    for place, made in enumerate(told):
        if isinstance(made, WindowEstimate):
            closed = [each for each in told[:place] if isinstance(each, WindowReport)]
            assert (made.slice, made.window, made.end) in [(one.slice, one.window, one.end) for one in closed]
            report = next(each for each in told[place:] if isinstance(each, Report))
            known = {(one.slice, one.window): one.end for one in report.estimation.estimates}
            assert known.get((made.slice, made.window), made.end) >= made.end
    # Of windows that close at one moment only the newest of a slice is estimated; the last one always is.
    assert len(outcome.estimates) <= len(outcome.closed)
    last, made = outcome.closed[-1], outcome.estimates[-1]
    assert (last.slice, last.window, last.end) == (made.slice, made.window, made.end)
    assert made in outcome.reports[-1].estimation.estimates


def test_the_end_of_the_file_waits_for_the_last_estimates(
    new_state: Callable[..., State], go: Callable[..., None]
) -> None:
    """With the state already saved, snapshots go on while the last windows are estimated, until it is done."""
    asked = list[str]()

    class Slow(NoEstimates):
        def unfinished(self, stop: Event) -> bool:
            assert not stop.is_set()
            asked.append(steps.taken[-1])
            return len(asked) < 4

    steps, outcome = Steps(), Outcome(estimates_of=Slow("slow", lambda: 0.0))
    go(new_state(), Source(steps), Store(steps), outcome)
    assert asked == ["commit"] * 4
    assert [report.ready for report in outcome.reports[-4:]] == [True, True, True, False]


def estimated(window: Window) -> DropEstimate:
    """What says how many items it was made of."""
    return DropEstimate(
        window.tally.items, 0.9, "", Interval(0.0, 0.0, 0.0), Interval(), {}, {}, inside_domains=True, outside=()
    )


def test_the_last_windows_of_a_file_are_estimated(
    new_state: Callable[..., State], go: Callable[..., None]
) -> None:
    """However seldom estimates are due, the last snapshot has one of every window it shows, of all its items."""
    outcome = Outcome()
    with EstimateJob(estimated, 3600.0, Clocks()) as outcome.estimates_of:
        go(new_state(), Source(Steps()), NoCheckpoints(), outcome)
    last = outcome.reports[-1]
    assert [(w.slice, w.window, w.end, w.items) for w in last.windows] == [
        (e.slice, e.window, e.end, e.estimate.n) for e in last.estimation.estimates
    ]
    assert last.windows


@pytest.mark.parametrize("told_to_stop", [False, True])
def test_a_hung_estimate_stops_neither_scoring_nor_the_end(
    new_state: Callable[..., State],
    go: Callable[..., None],
    plain: Callable[[object], Any],
    monkeypatch: pytest.MonkeyPatch,
    told_to_stop: bool,  # noqa: FBT001
) -> None:
    """With an estimate that never comes back all records are scored and saved, and a snapshot shows its start."""
    monkeypatch.setattr("agent.estimate_job.GRACE", 0.05)
    release, reached, stop = Event(), Event(), Event()
    whole, outcome = Outcome(), Outcome()
    go(new_state(), Source(Steps()), NoCheckpoints(), whole)

    def hangs(window: Window) -> DropEstimate:
        reached.set()
        assert release.wait(20)
        return estimated(window)

    class Waiting(Source):
        def read(self) -> Batch:
            if self.position > 14:
                assert reached.wait(20)
            batch = super().read()
            if told_to_stop and batch.ended:
                stop.set()
            return batch

    source, store = Waiting(Steps()), Store(Steps())
    with EstimateJob(hangs, 3600.0, Clocks(epoch=lambda: 5.0), patience=0.2) as outcome.estimates_of:
        go(new_state(), source, store, outcome, stop)
    release.set()
    assert plain(outcome.panes) == plain(whole.panes)
    assert plain(outcome.closed) == plain(whole.closed)
    assert store.facts["positions"] == {"file": len(STREAM)}
    assert outcome.reports[-1].estimation.running_since == 5.0
    assert outcome.reports[-1].estimation.estimates == ()
    assert outcome.estimates == []


@dataclass
class Letters:
    """Keeps letters, or cannot."""

    kept: list[DeadLetter] = field(default_factory=list)
    broken: bool = False

    def deliver(self, letters: Sequence[DeadLetter]) -> None:
        """Keep them. ServiceError if that is not possible."""
        if self.broken and letters:
            raise ServiceError("no place")
        self.kept.extend(letters)

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class Scripted(Source):
    """Gives these batches, and takes note of positions only while `noting`."""

    batches: list[Batch] = field(default_factory=list)
    noting: bool = True
    losing: int = 0

    def read(self) -> Batch:
        """The next batch; at the end of them the source has ended."""
        self.step("read")
        return self.batches.pop(0) if self.batches else Batch(ended=True)

    def commit(self, positions: Mapping[str, int]) -> bool:
        """Take note, or not."""
        return super().commit(positions) and self.noting

    def drain(self) -> bool:
        """Whether partitions were lost while the agent ended."""
        self.losing -= 1
        return self.losing >= 0


def looped(  # noqa: PLR0913, PLR0917 - the parts that differ
    state: State, source: Source, store: Any, score: Any, letters: Any, stop: Event | None = None
) -> list[Report]:
    """The snapshots of one run, in which a checkpoint is due each time."""
    reports: list[Report] = []
    clocks = Clocks(lambda: 0.0, lambda: 17.0)
    listeners = Listeners(reports.append, lambda _: None)
    estimates = NoEstimates("no domains", clocks.epoch)
    Loop(source, score, state, estimates, letters, store, listeners, stop or Event(), clocks).run()
    return reports


def batch_of(first: int, size: int, **facts: Any) -> Batch:
    """Records of one pane."""
    records = tuple(Record(f"{first + row}", "film", float(HOUR + row % 60)) for row in range(size))
    return Batch(records, positions={"file": first + size}, **facts)


LETTER = DeadLetter(Message(b"{", "file:1", 0.0), "not_json")


def test_letters_are_kept_before_the_checkpoint_that_passes_them(
    new_state: Callable[..., State], score: Callable[[Sequence[Record]], Scored]
) -> None:
    """A letter that cannot be kept ends the run before its position is saved; what came before is safe."""
    for broken in (False, True):
        steps, letters = Steps(), Letters(broken=broken)
        store = Store(steps)
        source = Scripted(steps, batches=[batch_of(0, 2), batch_of(2, 2, letters=(LETTER,))])
        if broken:
            with pytest.raises(ServiceError):
                looped(new_state(), source, store, score, letters)
            assert store.facts["positions"] == source.committed == {"file": 2}
        else:
            reports = looped(new_state(), source, store, score, letters)
            assert (letters.kept, store.facts["positions"]) == ([LETTER], {"file": 4})
            assert reports[-1].counts.dead_lettered["not_json"] == 1
            assert all(report.counts.balanced for report in reports)


def test_what_cannot_be_read_again_is_saved_before_the_end(
    new_state: Callable[..., State], score: Callable[[Sequence[Record]], Scored]
) -> None:
    """A source without positions cannot go back: records are saved though a letter beside them was not kept."""
    steps = Steps()
    store = Store(steps)
    batch = replace(batch_of(0, 3, letters=(LETTER,)), positions={})
    with pytest.raises(ServiceError):
        looped(new_state(), Scripted(steps, batches=[batch]), store, score, Letters(broken=True))
    assert sum(unpack(*key, content).tally.items for key, content in store.panes.items()) == 3


def test_a_long_batch_shows_life_while_it_is_scored(
    new_state: Callable[..., State], score: Callable[[Sequence[Record]], Scored]
) -> None:
    """Records are scored some at a time, with a snapshot before each: one message may hold thousands."""
    asked: list[int] = []

    def scored(records: Sequence[Record]) -> Scored:
        asked.append(len(records))
        return score(records)

    steps = Steps()
    source = Scripted(steps, batches=[batch_of(0, 2 * AT_ONCE + 1)])
    reports = looped(new_state(), source, Store(steps), scored, Letters())
    assert asked == [AT_ONCE, AT_ONCE, 1]
    in_flight = [report.counts.in_flight for report in reports]
    assert (in_flight[0], in_flight[-1]) == (2 * AT_ONCE + 1, 0)
    assert all(report.counts.balanced for report in reports)


def test_a_checkpoint_that_fails_is_waited_after(
    new_state: Callable[..., State], score: Callable[[Sequence[Record]], Scored]
) -> None:
    """While the store refuses, nothing is committed, and a source that asks to settle does not make it spin."""

    class Refusing(Store):
        def save(self, state: State) -> None:
            if waits < 3:
                raise ServiceError("full")
            super().save(state)

    waits = 0

    class Counting(Event):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal waits
            waits += 1
            assert timeout
            return False

    steps = Steps()
    source = Scripted(steps, batches=[batch_of(0, 1), *[Batch(settle=True)] * 3])
    looped(new_state(), source, Refusing(steps), score, Letters(), Counting())
    assert waits == 3
    assert steps.taken.index("commit") > steps.taken.index("after save")
    assert source.committed == {"file": 1}


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_loss_goes_back_to_what_the_source_has_noted(
    new_state: Callable[..., State], score: Callable[[Sequence[Record]], Scored], *, at_the_end: bool
) -> None:
    """Counts that were saved but never noted are undone in the store too, be it in the middle or at the end."""
    steps, state = Steps(), new_state()
    store = Store(steps)

    class Deaf(Scripted):
        def commit(self, positions: Mapping[str, int]) -> bool:
            self.noting = not steps.taken.count("commit")
            return super().commit(positions)

    lost = [] if at_the_end else [Batch(lost=True)]
    source = Deaf(steps, batches=[batch_of(0, 2), batch_of(2, 3), *lost], losing=int(at_the_end))
    looped(state, source, store, score, Letters())
    assert steps.taken.count("seek") == 2
    assert source.position == 2
    assert state.positions == store.facts["positions"] == {"file": 2}
    assert sum(unpack(*key, content).tally.items for key, content in store.panes.items()) == 2

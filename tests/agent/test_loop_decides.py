"""What the loop makes of a decision: it is saved, then told, then people are asked; all of it once."""

# Fixtures that are functions are typed as little as pytest types them.
# ruff: noqa: ANN401

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from agent.annotation.desk import Annotation
from agent.annotation.draw import Drawing
from agent.annotation.files import read_batch, read_items
from agent.annotation.labels import read_labels
from agent.annotation.texts import NoTexts
from agent.batch import Batch
from agent.checkpoints import Checkpoints
from agent.estimate_job import EstimateJob
from agent.interval import Interval
from agent.loop import Clocks, Listeners, Loop
from agent.messages import NoDeadLetters
from agent.records import Label, Record
from agent.report import DropEstimate, Report, SourceStatus
from agent.watch import Decided, Watch
from detectors.evidence import Bets, Evidence
from tests.agent.annotation.annotation_bench import config_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from agent.alert_report import Episode
    from agent.reference import Reference
    from agent.state import State

HOUR = 1_767_225_600
OWNER = "a reference"
HARM = DropEstimate(180, 0.9, "", Interval(0.3, 0.2, 0.4), Interval(0.6, 0.5, 0.7), inside_domains=True)


def minutes(first: int, last: int) -> list[Record]:
    """Ten records in each of these minutes."""
    return [
        Record(f"{minute}-{row}", f"good film {row}", float(HOUR + 60 * minute + 6 * row))
        for minute in range(first, last)
        for row in range(10)
    ]


@dataclass
class Listed:
    """Reads ten records at a time; after each read it waits until `ready`, as a stream gives estimates time."""

    records: list[Record]
    ready: Callable[[], None]
    labels: tuple[Label, ...] = ()
    position: int = 0

    def seek(self, positions: Mapping[str, int]) -> None:
        """There is nothing to skip: each list is what is left."""

    def read(self) -> Batch:
        """The next ten."""
        self.ready()
        found = tuple(self.records[self.position : self.position + 10])
        self.position += len(found)
        labels, self.labels = self.labels, ()
        return Batch(found, positions={"list": self.position}, labels=labels, ended=not found)

    def commit(self, positions: Mapping[str, int]) -> bool:
        """Taken note of."""
        del positions
        return True

    def drain(self) -> bool:
        """Nothing is left."""
        return False

    def status(self) -> SourceStatus:
        """There is nothing to say."""
        return SourceStatus()

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class Bench:
    """A directory for the state and the batches, and what was heard of the runs."""

    root: Path
    reference: Reference
    score: Any
    new_state: Callable[..., State]
    told: list[Episode] = field(default_factory=list)
    kept_when_told: list[list[str]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    @property
    def batches(self) -> Path:
        """Where batches go."""
        return self.root / "annotation"

    def open_desk(self) -> Annotation:
        """As at the start of an agent."""
        return Annotation(Drawing(self.reference, config_of(self.batches), NoTexts()), 0.05)

    def state_with_a_shift(self) -> State:
        """A state in which a shift has been seen since the hour."""
        state, rows = self.new_state(), [200] * len(self.reference.detectors)
        evidence = Evidence.none(Bets.calibrated(rows)).raised(1e9, HOUR)
        state.decision.restore(Decided({"default": Watch(evidence, HOUR, began=HOUR)}))
        return state

    def run(self, state: State, records: list[Record], labels: tuple[Label, ...] = (), every: float = 1e9) -> None:
        """One run over these records, with a checkpoint `every` so many seconds, and where the loop wants one."""
        with (
            closing(Checkpoints(self.root / "state.sqlite", every, OWNER)) as store,
            EstimateJob(lambda _: HARM, 0.01, Clocks()) as estimates,
        ):
            store.due(0.0)  # the first one always is

            def decided(episode: Episode) -> None:
                self.told.append(episode)
                self.kept_when_told.append(self.kept())

            Loop(
                Listed(records, lambda: estimates.unfinished(Event()) and None, labels),
                self.score,
                state,
                estimates,
                NoDeadLetters(),
                store,
                Listeners(self.reports.append, lambda _: None, decided=decided),
                Event(),
                Clocks(),
                self.open_desk(),
            ).run()

    def restored(self) -> State:
        """The state as the next agent finds it."""
        state = self.new_state()
        with closing(Checkpoints(self.root / "state.sqlite", 1e9, OWNER)) as store:
            store.restore(state)
        return state

    def kept(self) -> list[str]:
        """The episodes in a copy of the state on disk."""
        copy = self.root / "copy"
        copy.mkdir(exist_ok=True)
        for path in self.root.glob("state.sqlite*"):
            shutil.copyfile(path, copy / path.name)
        state = self.new_state()
        with closing(Checkpoints(copy / "state.sqlite", 1e9, OWNER)) as store:
            store.restore(state)
        return [episode.id for episode in state.decision.decided.episodes]


@pytest.fixture
def bench(tmp_path: Path, reference: Reference, score: Any, new_state: Callable[..., State]) -> Bench:
    """With nothing in it."""
    return Bench(tmp_path, reference, score, new_state)


def test_an_episode_is_saved_then_told_then_asked_about(bench: Bench) -> None:
    """When people hear of it, it is in the state already; its batch is of what came since the change."""
    bench.run(bench.state_with_a_shift(), minutes(0, 9))
    (episode,) = bench.told
    assert episode.open
    assert bench.kept_when_told == [[episode.id]]
    assert [path.name for path in bench.batches.iterdir()] == [episode.id]
    alerts = bench.reports[-1].alerts
    assert [each.id for each in alerts.open] == [episode.id]
    assert [batch.episode for batch in alerts.batches] == [episode.id]


def test_after_a_restart_it_is_told_no_second_time_and_a_lost_batch_is_written(bench: Bench) -> None:
    """The episode comes back with the state; only what is missing of it is made up for."""
    bench.run(bench.state_with_a_shift(), minutes(0, 9))
    (episode,) = bench.told
    shutil.rmtree(bench.batches)
    state = bench.restored()
    assert [each.id for each in state.decision.alerts().open] == [episode.id]
    bench.run(state, minutes(9, 14), every=0.0)
    assert bench.told == [episode]
    assert [path.name for path in bench.batches.iterdir()] == [episode.id]
    assert [each.id for each in bench.restored().decision.decided.episodes] == [episode.id]


def test_labels_that_come_with_the_stream_are_filed_with_their_batch(bench: Bench) -> None:
    """Those of its items, by id; others are nobody's."""
    bench.run(bench.state_with_a_shift(), minutes(0, 9))
    (episode,) = bench.told
    directory = bench.batches / episode.id
    asked = read_items(directory, read_batch(directory))[0].id
    labels = (Label(asked, "good", 1.0), Label("unknown", "good", 1.0))
    bench.run(bench.restored(), minutes(9, 10), labels, every=0.0)
    assert read_labels(directory) == {asked: Label(asked, "good", 1.0)}

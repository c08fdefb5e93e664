"""The heart: read, score, fold, report, checkpoint, commit, until told to stop."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agent.errors import ServiceError
from agent.no_annotation import NoAnnotation
from agent.state import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from threading import Event

    from agent.alert_report import Asked, Episode
    from agent.batch import Batch
    from agent.messages import DeadLetters
    from agent.records import Label, Record
    from agent.report import DropEstimate, Estimation, Report, SourceStatus, Upkeep, WindowEstimate, WindowReport
    from agent.scorer import Scored
    from agent.state import State
    from agent.window_contents import EndedWindow


class RecordSource(Protocol):
    """Where records come from. Used from one thread."""

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on from these positions; a partition that is not named starts where the source is configured to."""

    def read(self) -> Batch:
        """The next records, soon: an empty batch if none came in time. Never raises for a bad record."""

    def commit(self, positions: Mapping[str, int]) -> bool:
        """Tell the source that everything before these positions is safely kept; whether it has taken note.

        May be repeated. Raises nothing: what could not be said now is said with the next checkpoint.
        """

    def drain(self) -> bool:
        """Take nothing more in; whether something is left to read that could not be read again after a restart.

        Asked again and again while the agent stops; False soon.
        """

    def status(self) -> SourceStatus:
        """How the source is doing."""

    def close(self) -> None:
        """Let go of connections and threads, within seconds. Nothing is committed by it."""


class Checkpoints(Protocol):
    """Makes the state durable."""

    def due(self, now: float) -> bool:
        """Whether it is time for the next checkpoint (monotonic seconds)."""

    def save(self, state: State) -> None:
        """Write panes and positions in one transaction. ServiceError if the disk refuses; the next may do."""

    def upkeep(self) -> Upkeep:
        """How the keeping of the state goes."""


class Estimates(Protocol):
    """Estimates made beside the loop, in a thread of their own.

    Nothing here raises; only `of` and `unfinished` take time.
    """

    @property
    def latest(self) -> Estimation:
        """What there is to say now."""

    def offer(self, windows: tuple[EndedWindow, ...]) -> None:
        """Have these windows estimated, in place of older ones of the same slice and name."""

    def take(self) -> list[WindowEstimate]:
        """The estimates made since the last call, in the order they were made; each is in `latest` too."""

    def of(self, window: EndedWindow) -> DropEstimate | None:
        """The estimate of this window, made here and now in a fraction of a second; None if it broke."""

    def unfinished(self, stop: Event) -> bool:
        """Wait a moment for the windows offered last; whether to wait on: not for ever, not once told to stop."""


class Annotation(Protocol):
    """Asks people for labels, and takes them. Nothing here raises."""

    def ask(self, episode: Episode, window: EndedWindow, estimate: DropEstimate | None) -> None:
        """Write the annotation batch of an episode, drawn from this window, of which that is the estimate."""

    def lacks(self, episode: str) -> bool:
        """Whether a batch should be there and is neither there nor about to be."""

    def take(self, labels: Sequence[Label]) -> None:
        """Labels that came on their own; those of a batch's items are kept with it."""

    def tidy(self, now: float, asking: Collection[str]) -> None:
        """Do what is due: write what could not be written, delete texts that are too old, look for new labels.

        `asking` are the episodes (ids) that are open.
        """

    def acquitted(self, max_drop: float) -> Iterable[str]:
        """The episodes (ids) whose labels say that no more than this is lost."""

    def told(self) -> Asked:
        """What was asked and what came back."""


# Records that are scored between two signs of life: one message can hold thousands.
AT_ONCE = 256
# After a checkpoint that failed (seconds): a source that waits for one would ask again at once.
PAUSE = 0.5


@dataclass(frozen=True)
class Listeners:
    """Who is told: `publish` of snapshots, `closed` of windows, `estimated` of estimates, `decided` of episodes.

    Of each as soon as it is there; of an episode when it begins, becomes certain, and ends.
    """

    publish: Callable[[Report], None]
    closed: Callable[[WindowReport], None]
    estimated: Callable[[WindowEstimate], None] = lambda _: None
    decided: Callable[[Episode], None] = lambda _: None


@dataclass(frozen=True)
class Clocks:
    """Monotonic seconds for intervals, epoch seconds for what is shown."""

    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time


@dataclass(frozen=True)
class Loop:
    """The parts of a running agent, and what they do in turn, all on the thread that calls `run`."""

    source: RecordSource
    score: Callable[[Sequence[Record]], Scored]
    state: State
    estimates: Estimates
    letters: DeadLetters
    checkpoints: Checkpoints
    listeners: Listeners
    stop: Event
    clocks: Clocks
    annotation: Annotation = field(default_factory=NoAnnotation)

    def run(self) -> None:
        """Until `stop` is set or the source has ended. Raises only for what no record can cause."""
        self.source.seek(self.state.positions)
        while not self.stop.is_set() or self.source.drain():
            batch = self.source.read()
            if batch.lost:
                self._go_back()
                continue
            self._fold(batch)
            self._deliver(batch)
            self._close(finished=batch.ended)
            self._decide()
            self._publish()
            if batch.ended:
                break
            if batch.settle or self.checkpoints.due(self.clocks.monotonic()):
                self._look_at_labels()
                self._try_to_settle()
        self._end()

    def _fold(self, batch: Batch) -> None:
        self.state.receive(batch)
        self.annotation.take(batch.labels)
        for start in range(0, len(batch.records), AT_ONCE):
            self._publish()  # a scrape during the long part sees the batch in flight
            records = batch.records[start : start + AT_ONCE]
            self.state.add(records, self.score(records))
        self.state.pass_to(batch.positions)

    def _deliver(self, batch: Batch) -> None:
        """Before any checkpoint that passes these letters."""
        if not batch.letters:
            return
        self._publish()  # it may take long to have them kept
        try:
            self.letters.deliver(batch.letters)
        except ServiceError:
            if not batch.positions:  # nobody can read these records again: what was made of them must not go too
                self._settle()
            raise
        self.state.delivered(batch.letters)

    def _close(self, *, finished: bool) -> None:
        for window in self.state.close_windows(self.clocks.epoch(), finished=finished):
            self.listeners.closed(window)
        self.estimates.offer(self.state.take_ended())

    def _decide(self) -> None:
        """On the estimates made meanwhile, between batches; and have done what follows from what was decided."""
        for made in self.estimates.take():
            self.state.decision.estimated(made, self.clocks.epoch())
            self.listeners.estimated(made)
        changed = self.state.decision.take_changed()
        if changed:
            self._try_to_settle()  # before anybody is told: after a crash it must be the same episode
        for episode in changed:
            self._ask(episode)
            self.listeners.decided(episode)

    def _ask(self, episode: Episode) -> None:
        """Of what came since the change alone: labels of what was before it would say that less is lost."""
        window = self.state.asked_about(episode) if episode.open and self.annotation.lacks(episode.id) else None
        if window is not None:
            self.annotation.ask(episode, window, self.estimates.of(window))

    def _look_at_labels(self) -> None:
        now = self.clocks.epoch()
        self.state.texts.expire(now)
        asking = self.state.decision.alerts().open
        self.annotation.tidy(now, [episode.id for episode in asking])
        for episode in asking:
            self._ask(episode)  # where an earlier run was ended before its batch could be written
        for name in self.annotation.acquitted(self.state.decision.rules.max_drop):
            self.state.decision.harmless(name, now)

    def _settle(self) -> None:
        self.checkpoints.save(self.state)  # panes and positions: one transaction
        if self.source.commit(self.state.positions):  # only ever after the save
            self.state.confirm()

    def _try_to_settle(self) -> None:
        try:
            self._settle()
        except ServiceError:  # counted and logged by the store; nothing is committed, and the next one is due soon
            self.stop.wait(PAUSE)

    def _go_back(self) -> None:
        """To what the source has taken note of: the rest is somebody else's."""
        self.state.roll_back(self.clocks.epoch())
        self.source.seek(self.state.positions)

    def _end(self) -> None:
        self._settle()
        if self.source.drain():  # the commit came too late: what was saved of lost partitions must be undone
            self._go_back()
            self._settle()
        while self.estimates.unfinished(self.stop):  # of the last windows; the state is safe by now
            self._decide()
            self._publish()
        self._decide()
        self._publish(ready=False)

    def _publish(self, *, ready: bool = True) -> None:
        beside = Beside(
            self.estimates.latest, self.source.status(), self.checkpoints.upkeep(), self.annotation.told()
        )
        self.listeners.publish(self.state.report(self.clocks.epoch(), ready=ready, beside=beside))

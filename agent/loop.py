"""The heart: read, score, fold, report, checkpoint, commit, until told to stop."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent.errors import ServiceError
from agent.state import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from threading import Event

    from agent.batch import Batch
    from agent.messages import DeadLetters
    from agent.records import Record
    from agent.report import Estimation, Report, SourceStatus, Upkeep, WindowEstimate, WindowReport
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
    """Estimates made beside the loop, in a thread of their own. Nothing here raises, or waits but `unfinished`."""

    @property
    def latest(self) -> Estimation:
        """What there is to say now."""

    def offer(self, windows: tuple[EndedWindow, ...]) -> None:
        """Have these windows estimated, in place of older ones of the same slice and name."""

    def take(self) -> list[WindowEstimate]:
        """The estimates made since the last call, in the order they were made; each is in `latest` too."""

    def unfinished(self, stop: Event) -> bool:
        """Wait a moment for the windows offered last; whether to wait on: not for ever, not once told to stop."""


@dataclass(frozen=True)
class Listeners:
    """Who is told: `publish` of every new snapshot, `closed` of a window that ends, `estimated` of an estimate."""

    publish: Callable[[Report], None]
    closed: Callable[[WindowReport], None]
    estimated: Callable[[WindowEstimate], None] = lambda _: None


@dataclass(frozen=True)
class Clocks:
    """Monotonic seconds for intervals, epoch seconds for what is shown."""

    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time


def run(  # noqa: C901, PLR0913, PLR0917 - the loop's parts, each named
    source: RecordSource,
    score: Callable[[Sequence[Record]], Scored],
    state: State,
    estimates: Estimates,
    letters: DeadLetters,
    listeners: Listeners,
    checkpoints: Checkpoints,
    stop: Event,
    clocks: Clocks,
) -> None:
    """Run until `stop` is set or the source has ended. Raises only for what no record can cause."""

    def publish(*, ready: bool = True) -> None:
        for estimate in estimates.take():
            listeners.estimated(estimate)
        beside = Beside(estimates.latest, source.status(), checkpoints.upkeep())
        listeners.publish(state.report(clocks.epoch(), ready=ready, beside=beside))

    def close(*, finished: bool = False) -> None:
        for window in state.close_windows(finished=finished):
            listeners.closed(window)
        estimates.offer(state.take_ended())

    def fold(batch: Batch) -> None:
        state.receive(batch)
        publish()  # a scrape during the long part sees the batch in flight
        letters.deliver(batch.letters)  # before any checkpoint that passes them
        state.delivered(batch.letters)
        state.add(batch, score(batch.records) if batch.records else None)
        close(finished=batch.ended)
        if batch.records:
            publish()

    def settle() -> None:
        checkpoints.save(state)  # panes and positions: one transaction
        if source.commit(state.positions):  # only ever after the save
            state.confirm()

    source.seek(state.positions)
    while not stop.is_set() or source.drain():
        batch = source.read()
        if batch.lost:
            state.roll_back()
            source.seek(state.positions)
            continue
        fold(batch)
        if batch.ended:
            break
        if batch.settle or checkpoints.due(clocks.monotonic()):
            with suppress(
                ServiceError
            ):  # counted and logged by the store; nothing is committed, the next one is due
                settle()
    settle()
    while estimates.unfinished(stop):  # of the last windows; the state is safe by now
        publish()
    publish(ready=False)

"""The state store: one SQLite database, one transaction a checkpoint.

Everything that must survive is written together, so after a crash every record before the positions is counted in
a pane or waits for its other half, and none after them is. Every row carries its sha256, which covers its place
as well, and the rows together a sum of those: a state comes back exactly, or it is put aside and a new one begun.
"""

from __future__ import annotations

import fcntl
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog

from agent.errors import ArtefactError, ServiceError, UsageError
from agent.report import Upkeep
from agent.state_store.content import Content, write
from agent.state_store.faults import RefusedError, UnusableError, judged
from agent.state_store.files import facts_of, opened
from agent.state_store.kept import Changes
from agent.state_store.quarantine import Quarantine
from agent.state_store.rows import Rows
from agent.state_store.succession import bequeath, left_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from agent.alert_report import Episode
    from agent.state_store.kept import Kept

UNSAVED = (
    "records are scored as before, and the next save writes what this one could not; if the agent ends before one "
    "succeeds, everything since the last is read again"
)


class Recurring:
    """What is due every `every` seconds, at once for the first time."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next = float("-inf")

    def due(self, now: float) -> bool:
        """Whether `every` seconds have passed since it was last due (monotonic seconds)."""
        if now < self._next:
            return False
        self._next = now + self._every
        return True

    def change(self, every: float) -> None:
        """Be due every so many seconds from now on."""
        self._every = every


class Checkpoints(Recurring):
    """Saves the state every `every` seconds. The database belongs to `owner`.

    A state that cannot be used (damaged, cut short, of a later schema version, another owner's) is put aside, and
    counted in `quarantined` by reason. UsageError for a path that cannot be used.
    """

    def __init__(self, path: Path, every: float, owner: str, epoch: Callable[[], float] = time.time) -> None:
        super().__init__(every)
        self._path = path
        self._owner = owner
        self._epoch = epoch
        self._quarantine = Quarantine(path)
        self._changes = Changes()
        self._stored: set[str] = set()
        self._last = float("nan")
        self.failures = 0
        self._database = self._open()

    @property
    def id(self) -> str:
        """What this state is known by; a new one has another."""
        return facts_of(self._database)["id"]

    @property
    def quarantined(self) -> Mapping[str, int]:
        """How many states were put aside since the start, by reason."""
        return self._quarantine.counts

    def upkeep(self) -> Upkeep:
        """How the keeping of the state goes."""
        return Upkeep(self._last, self.failures, self.quarantined)

    def restore(self, state: Kept) -> None:
        """Put the last checkpoint into a fresh state; what changed since then is forgotten.

        Leaves the state fresh, and begins a new database, if this one is damaged. UsageError if it cannot be read.
        """
        self._changes = Changes()
        try:
            with self._told(), closing(self._database.cursor()) as cursor:
                content = Content.read(cursor)
        except UnusableError as error:
            self._database.close()
            self._database = self._afresh(error)
            content = Content()
        content.give(state)
        self._stored = set(state.pairing.halves)

    def save(self, state: Kept) -> None:
        """Write what changed since the last save that succeeded, in one transaction.

        ServiceError if the disk refuses; it is logged and counted. The next save writes what this one could not.
        """
        self._changes.take(state, self._stored)
        try:
            with closing(self._database.cursor()) as cursor:
                self._write(cursor, state)
        except sqlite3.Error as error:
            self.failures += 1
            structlog.get_logger().error(
                "state not saved", path=str(self._path), problem=str(error), means=UNSAVED
            )
            raise ServiceError(f"state.path: {self._path} cannot be written: {error}") from error
        self._changes = Changes()
        self._stored = set(state.pairing.halves)
        self._last = self._epoch()

    def close(self) -> None:
        """Let go of the file. Saves nothing."""
        self._database.close()

    def _write(self, cursor: sqlite3.Cursor, state: Kept) -> None:
        try:
            cursor.execute("BEGIN IMMEDIATE")
            write(Rows(cursor), state, self._changes)
            cursor.execute("COMMIT")
        finally:
            if self._database.in_transaction:  # a full disk may leave it open, and there would be no other
                cursor.execute("ROLLBACK")

    def _open(self) -> sqlite3.Connection:
        try:
            with self._told():
                return opened(self._path, self._owner)
        except UnusableError as error:
            return self._afresh(error)

    def _afresh(self, error: UnusableError) -> sqlite3.Connection:
        """Put the state aside, and begin a new one with what it leaves."""
        left: list[Episode] = []
        try:
            with self._told():
                left = left_by(self._path, error, self._epoch())
        except UnusableError as damage:
            error = damage
        self._quarantine.take(error, self._epoch())
        try:
            with self._told():
                return self._begun(left)
        except UnusableError as again:
            raise ArtefactError(f"state.path: {self._path}: a new state cannot be used: {again.what}") from again

    def _begun(self, left: list[Episode]) -> sqlite3.Connection:
        database = opened(self._path, self._owner)
        try:
            bequeath(database, left)
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What is in the way, as a UsageError that names the path."""
        try:
            with judged():
                yield
        except RefusedError as error:
            raise UsageError(f"state.path: {self._path}: {error}") from error


class NoCheckpoints(Recurring):
    """For an agent without `state`: nothing survives a restart.

    It is due all the same, because sources note how far the agent is.
    """

    failures = 0

    def __init__(self, every: float = 10.0) -> None:
        super().__init__(every)
        self.id = uuid4().hex

    @property
    def quarantined(self) -> Mapping[str, int]:
        """None."""
        return {}

    def upkeep(self) -> Upkeep:
        """Nothing to keep."""
        return Upkeep()

    def restore(self, state: Kept) -> None:
        """Leave it as it is."""

    def save(self, state: Kept) -> None:
        """Forget what changed."""
        Changes().take(state, ())

    def close(self) -> None:
        """Nothing to let go of."""


@contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """Hold a lock beside the state: two agents that wrote to one state would count records twice.

    The lock goes with the process, however it ends. UsageError if another agent has it.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = lock.open("ab")
    except OSError as error:
        raise UsageError(f"state.path: {path}: cannot be opened: {error}") from error
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"state.path: another agent is using {path}: stop it, or give this one a path of its own"
            ) from error
        yield

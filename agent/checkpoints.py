"""The state store: one SQLite database, one transaction a checkpoint.

Panes and positions are written together, so after a crash every record before the position is in a pane, and
none after it is. Each blob carries its sha256, which covers its place as well.
"""

from __future__ import annotations

import fcntl
import hashlib
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load, save

from agent.errors import ArtefactError, ServiceError, UsageError
from agent.panes import Pane, Tally
from agent.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from agent.state import State

SCHEMA = 2
# "lead" in ASCII: how SQLite files say whose they are.
OURS = 0x6C656164
TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS positions (partition TEXT PRIMARY KEY, position INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS sealed (only INTEGER PRIMARY KEY CHECK (only = 1), until INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS slices (place INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS panes (
  slice TEXT, start INTEGER, content BLOB NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (slice, start)
) STRICT;
"""

# What reading a damaged file raises; its very error message may not be text.
DAMAGE = (sqlite3.Error, UnicodeDecodeError)


class Checkpoints:
    """Saves the state every `every` seconds. The database belongs to `owner`."""

    def __init__(self, path: Path, every: float, owner: str, epoch: Callable[[], float] = time.time) -> None:
        self._path = path
        self._every = every
        self._epoch = epoch
        self._next = float("-inf")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            if not self._ours():
                raise UsageError(f"state.path: {path} is somebody else's database: choose another path")
            self._database.executescript(
                f"PRAGMA application_id={OURS}; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {TABLES}"
            )
        except (OSError, *DAMAGE) as error:
            raise UsageError(f"state.path: {path}: cannot be opened: {error}") from error
        with self._damage():
            self._claim({"schema": str(SCHEMA), "owner": owner})

    def _ours(self) -> bool:
        """Whether the database is new, or carries our mark."""
        (mark,) = self._database.execute("PRAGMA application_id").fetchone()
        (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return mark == OURS or not tables

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """What SQLite finds wrong with the file while it is read, as an ArtefactError."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise UsageError(f"state.path: {self._path} cannot be used: {error}") from error
        except DAMAGE as error:
            raise ArtefactError(f"state.path: {self._path} is damaged: {error}. Move it away.") from error

    def _claim(self, facts: dict[str, str]) -> None:
        """Mark a new database as ours; refuse one that another schema or reference wrote."""
        found = dict(self._database.execute("SELECT name, value FROM facts").fetchall())
        if found and found != facts:
            raise ArtefactError(
                f"state.path: {self._path} was written for another reference, source, pane length, slice field or "
                "version of Leadline. Move it away to start afresh, or give this agent a path of its own."
            )
        self._database.executemany("INSERT OR IGNORE INTO facts VALUES (?, ?)", facts.items())

    def restore(self, state: State) -> None:
        """Put the last checkpoint's panes and positions into a fresh state. ArtefactError if it is damaged."""
        with self._damage():
            self._restore(state)

    def _restore(self, state: State) -> None:
        read = self._database.execute
        state.positions.update(read("SELECT partition, position FROM positions").fetchall())
        for (name,) in read("SELECT name FROM slices ORDER BY place"):
            state.slices.name(name)
        panes = [self._pane(*row) for row in read("SELECT slice, start, content, sha256 FROM panes")]
        (sealed_until,) = read("SELECT coalesce(max(until), 0) FROM sealed").fetchone()
        state.windows.restore(panes, sealed_until)
        state.resume()

    def _pane(self, name: str, start: int, content: bytes, sha256: str) -> Pane:
        if _digest(name, start, content) != sha256:
            raise ArtefactError(
                f"state.path: {self._path} is damaged: pane {start} of slice {name!r}. Move it away."
            )
        return unpack(name, start, content)

    def due(self, now: float) -> bool:
        """Whether `every` seconds have passed since it was last due (monotonic seconds)."""
        if now < self._next:
            return False
        self._next = now + self._every
        return True

    def save(self, state: State) -> None:
        """Write what changed since the last save, in one transaction.

        ServiceError if the disk refuses: the agent must stop rather than go on uncounted.
        """
        try:
            with closing(self._database.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                self._write(cursor, state)
                cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise ServiceError(f"state.path: {self._path} cannot be written: {error}") from error
        state.last_checkpoint = self._epoch()

    @staticmethod
    def _write(cursor: sqlite3.Cursor, state: State) -> None:
        for name, start in state.windows.take_changed():
            pane = state.windows.panes.get((name, start))
            if pane is None:
                cursor.execute("DELETE FROM panes WHERE slice = ? AND start = ?", (name, start))
                continue
            content = pack(pane)
            digest = _digest(name, start, content)
            cursor.execute("INSERT OR REPLACE INTO panes VALUES (?, ?, ?, ?)", (name, start, content, digest))
        cursor.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", state.positions.items())
        cursor.executemany("INSERT OR REPLACE INTO slices VALUES (?, ?)", enumerate(state.slices.known))
        cursor.execute("INSERT OR REPLACE INTO sealed VALUES (1, ?)", (state.windows.sealed_until,))


def _digest(name: str, start: int, content: bytes) -> str:
    """The sha256 of a pane and of where it belongs."""
    return hashlib.sha256(f"{name}\0{start}\0".encode() + content).hexdigest()


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


class NoCheckpoints:
    """For an agent without `state`: nothing survives a restart."""

    def due(self, now: float) -> bool:
        """Never."""
        del now
        return False

    def save(self, state: State) -> None:
        """Forget which panes changed."""
        state.windows.take_changed()


def pack(pane: Pane) -> bytes:
    """A pane as safetensors bytes; `unpack` gives it back exactly."""
    arrays: dict[str, NDArray[np.generic]] = {
        f"tally.{item.name}": np.asarray(getattr(pane.tally, item.name)) for item in fields(Tally)
    }
    arrays |= {f"sample.{item.name}": np.asarray(getattr(pane.sample, item.name)) for item in fields(Sample)}
    # safetensors has no text: the ids go as the bytes of their UTF-32 code points.
    ids = pane.sample.ids
    arrays["sample.ids"] = ids.view(np.uint32).reshape(len(ids), ids.dtype.itemsize // 4)
    return save({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()})


def unpack(name: str, start: int, content: bytes) -> Pane:
    """The pane that `pack` wrote."""
    arrays = load(content)
    ids = arrays["sample.ids"]
    arrays["sample.ids"] = np.ascontiguousarray(ids).view(f"<U{ids.shape[1]}").reshape(len(ids))

    def part(kind: str, names: list[str]) -> list[Any]:
        found = [arrays[f"{kind}.{field}"] for field in names]
        return [array if array.ndim else array.item() for array in found]

    return Pane(
        name,
        start,
        Tally(*part("tally", [item.name for item in fields(Tally)])),
        Sample(*part("sample", [item.name for item in fields(Sample)])),
    )

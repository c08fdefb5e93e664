"""The file a state is in: made whole, opened with care, and told from files that are not ours."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from agent.state_store.faults import Fault, RefusedError, UnusableError, judged
from agent.state_store.rows import Rows, make_tables
from agent.state_store.schema import OURS, SCHEMA, digest
from agent.state_store.upgrades import upgrade

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# What SQLite puts beside a database; they belong together.
BESIDE = ("-wal", "-shm", "-journal")
HEADER = 100
# How long to wait for another program that has locked the database, in seconds.
PATIENCE = 5.0
_MAGIC = b"SQLite format 3\0"
# Halves that wait hold text: it is overwritten when they go.
_SETTINGS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"


def beside(path: Path, suffix: str) -> Path:
    """The file with this suffix that belongs to the state."""
    return path.with_name(path.name + suffix)


def opened(path: Path, owner: str) -> sqlite3.Connection:
    """The state of `owner`, made if there is none, carried over if it is of an older schema version.

    UnusableError for a state that can never be used, RefusedError for a path that cannot be.
    """
    with judged():
        if not path.exists():
            _look_for_remains(path)
            _make(path, owner)
        _look_at_header(path)
        database = sqlite3.connect(path, PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            _claim(database, owner)
            database.executescript(_SETTINGS)
            path.chmod(0o600)
        except BaseException:
            database.close()
            raise
        with suppress(OSError):  # a full disk: it only helps to tell later that a state was here
            _mark(path)
    return database


def facts_of(database: sqlite3.Connection) -> dict[str, str]:
    """What the state says of itself: its schema version, its owner, its id."""
    rows = database.execute("SELECT * FROM facts").fetchall()
    facts = {name: value for name, value, *_ in rows}
    if not _is_newer(facts):  # how a later version checks its rows is not known here
        for name, value, *checksum in rows:
            if checksum and checksum != [digest("facts", (name, value))]:
                raise UnusableError(Fault.CORRUPT, "it is damaged: a row of its table 'facts' has changed")
    return facts


def _is_newer(facts: Mapping[str, str]) -> bool:
    schema = facts.get("schema", "")
    return schema.isdecimal() and int(schema) > SCHEMA


def _look_for_remains(path: Path) -> None:
    """SQLite would play the log of a vanished database into a new one, or delete it."""
    log = beside(path, "-wal")
    if log.exists() and log.stat().st_size:
        raise UnusableError(Fault.TRUNCATED, "its database file is gone, its write-ahead log is there")
    for suffix in BESIDE:
        beside(path, suffix).unlink(missing_ok=True)


def _make(path: Path, owner: str) -> None:
    """Make a new state beside its place and move it there: a crash leaves all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = beside(path, ".new")
    for suffix in ("", *BESIDE):
        beside(new, suffix).unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(new, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous=FULL")
        cursor = database.execute("BEGIN")
        cursor.execute(f"PRAGMA application_id={OURS}")
        make_tables(cursor)
        rows = Rows(cursor)
        for name, value in {"schema": str(SCHEMA), "id": str(uuid4()), "owner": owner}.items():
            rows.put("facts", (name,), (value,))
        rows.finish()
        cursor.execute("COMMIT")
        cursor.execute("PRAGMA journal_mode=WAL")
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the name, too, must survive a power cut
    finally:
        os.close(directory)


def _look_at_header(path: Path) -> None:
    """What SQLite would call somebody else's file, or overwrite, though it was ours; before it opens it."""
    with path.open("rb") as file:
        header = file.read(HEADER)
    if not header:
        # A new state is moved here whole: an empty file is not one that was begun.
        raise UnusableError(Fault.TRUNCATED, "it is empty")
    if header[:16] != _MAGIC:
        if not _was_ours(path, header):
            raise RefusedError("cannot be opened: it is not a database; choose another path")
        raise UnusableError(cut_short(path), "it is damaged: it does not begin as a database does")
    if len(header) == HEADER and header[18:20] not in (b"\1\1", b"\2\2"):
        # A format SQLite does not know yet: one damaged byte would make it read-only, as a permission does.
        raise UnusableError(Fault.CORRUPT, "it is damaged: its header has changed")


def _was_ours(path: Path, header: bytes) -> bool:
    """Whether a state has been kept here, by what is left of it."""
    lock = beside(path, ".lock")
    return (
        header[68:72] == OURS.to_bytes(4, "big")
        or any(beside(path, suffix).exists() for suffix in BESIDE)
        or (lock.exists() and lock.stat().st_size > 0)
    )


def _mark(path: Path) -> None:
    """Note in the lock file that a state is kept here."""
    lock = beside(path, ".lock")
    if not lock.exists() or not lock.stat().st_size:
        with lock.open("ab") as file:
            file.write(b"Leadline keeps its state beside this file, and locks this file while it runs.\n")


def cut_short(path: Path) -> Fault:
    """Whether damage comes from a file that ends before its header says; else it is plain damage."""
    with path.open("rb") as file:
        header = file.read(HEADER)
    if len(header) < HEADER:
        return Fault.TRUNCATED
    pages, size = int.from_bytes(header[28:32], "big"), int.from_bytes(header[16:18], "big")
    bytes_said = pages * (65_536 if size == 1 else size)
    return Fault.TRUNCATED if path.stat().st_size < bytes_said else Fault.CORRUPT


def _claim(database: sqlite3.Connection, owner: str) -> None:
    """Make sure that the database is whole, ours, and of this owner and schema version."""
    _recognise(database)
    (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise UnusableError(Fault.CORRUPT, "it is damaged: SQLite finds its pages at odds with each other")
    facts = facts_of(database)
    if _is_newer(facts):
        newer = f"it has schema version {facts['schema']}, and this version of Leadline knows {SCHEMA} at most"
        raise UnusableError(Fault.FUTURE_VERSION, newer)
    schema = facts.get("schema", "")
    if not schema.isdecimal() or "owner" not in facts:
        raise UnusableError(Fault.CORRUPT, "it is damaged: it does not say what it is")
    if facts["owner"] != owner:
        other = "it was written for another reference, source, pane length or slice field"
        raise UnusableError(Fault.OTHER_OWNER, other)
    upgrade(database, int(schema))


def _recognise(database: sqlite3.Connection) -> None:
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    if mark == OURS:
        return
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if {"facts", "panes", "positions"} <= tables:
        raise UnusableError(Fault.CORRUPT, "it is damaged: its mark has changed")
    if tables or mark:
        raise RefusedError("somebody else's database: choose another path")
    raise UnusableError(Fault.TRUNCATED, "it holds nothing")

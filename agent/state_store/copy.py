"""What a state holds at this moment, read from a copy: an agent may go on using the state meanwhile."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import ArtefactError, UsageError
from agent.state_store.content import Content
from agent.state_store.faults import RefusedError, UnusableError, judged
from agent.state_store.files import PATIENCE, beside, opened


def read_copy(path: Path, owner: str) -> Content:
    """The content of the newest checkpoint of this owner's state.

    UsageError if there is no state or it cannot be read, ArtefactError if it is damaged or somebody else's.
    """
    if not path.exists():
        raise UsageError(f"state.path: {path}: no such file: no agent has run with this configuration yet")
    try:
        with judged(), TemporaryDirectory(prefix="leadline-copy-") as directory:
            copy = Path(directory) / path.name
            (_copy_used if in_use(path) else copy_files)(path, copy)
            return content_of(copy, owner)
    except RefusedError as error:
        raise UsageError(f"state.path: {path}: {error}") from error
    except UnusableError as error:
        raise ArtefactError(f"state.path: {path}: {error.what}") from error


def _copy_used(path: Path, copy: Path) -> None:
    """Through SQLite, which sees one whole checkpoint while the agent writes the next."""
    with (
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", PATIENCE, uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)


def copy_files(path: Path, copy: Path) -> None:
    """File by file: SQLite would leave files of its own beside a state that nobody uses."""
    for suffix in ("", "-wal", "-journal", ".lock"):
        if beside(path, suffix).exists():
            shutil.copyfile(beside(path, suffix), beside(copy, suffix))


def content_of(copy: Path, owner: str) -> Content:
    """The whole of this owner's state, verified. Writes to the file; what is wrong is for `judged`."""
    with closing(opened(copy, owner)) as database, closing(database.cursor()) as cursor:
        return Content.read(cursor)


def in_use(path: Path) -> bool:
    """Whether an agent holds the state; a copy taken while it writes would look damaged."""
    lock = beside(path, ".lock")
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

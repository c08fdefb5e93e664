"""What would be done with a state, found out without touching it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import ArtefactError, UsageError
from agent.state_store.copy import content_of, copy_files, in_use
from agent.state_store.faults import Fault, RefusedError, UnusableError, judged
from agent.state_store.files import PATIENCE, beside, cut_short, facts_of
from agent.state_store.quarantine import MEANS


class Notice(str):
    """What would be done, where nothing is wrong but somebody should know before it is done."""

    __slots__ = ()


def inspect(path: Path, owner: str) -> str:
    """What `leadline run` would do with the state of this owner, in words: a Notice if the reference is a new one.

    Reads a copy, because SQLite writes to what it opens. UsageError for a path that cannot be used, ArtefactError
    for a state that would be put aside for another reason.
    """
    try:
        with judged():
            if path.exists() or beside(path, "-wal").exists():
                return _copied(path, owner)
            return _absent(path)
    except RefusedError as error:
        raise UsageError(f"state.path: {path}: {error}") from error


def _absent(path: Path) -> str:
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UsageError(f"state.path: {path} cannot be made: {above} is not a directory that can be written to")
    return f"starts afresh in {path}"


def _copied(path: Path, owner: str) -> str:
    if in_use(path):
        with suppress(RefusedError, UnusableError):  # the agent itself will tell
            if _only_the_reference(path, owner):
                return _new_reference(path)
        return f"goes on from {path}, which an agent is using now"
    for needed in (path.parent, path):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise RefusedError(f"cannot be used: {needed} cannot be written to")
    with TemporaryDirectory(prefix="leadline-check-") as directory:
        copy = Path(directory) / path.name
        copy_files(path, copy)
        try:
            with judged():
                content_of(copy, owner)
        except UnusableError as error:
            corrupt = error.fault is Fault.CORRUPT and copy.exists()
            reason = cut_short(copy) if corrupt else error.fault
            if error.fault is Fault.OTHER_OWNER and _only_the_reference(copy, owner):
                return _new_reference(path)
            raise ArtefactError(
                f"state.path: {path}: {error.what}. `leadline run` would put it aside as "
                f"{path.name}.quarantine-…-{reason} and start afresh: {MEANS}."
            ) from error
    return f"goes on from {path}"


def _only_the_reference(path: Path, owner: str) -> bool:
    """Whether a state's owner differs in the reference, which it begins with, and in nothing else."""
    where = f"{path.absolute().as_uri()}?mode=ro"
    with judged(), closing(sqlite3.connect(where, PATIENCE, uri=True)) as database:
        before = facts_of(database)["owner"]
    return before != owner and before.partition(", ")[2] == owner.partition(", ")[2]


def _new_reference(path: Path) -> Notice:
    aside = f"{path.name}.quarantine-…-{Fault.OTHER_OWNER}"
    return Notice(
        f"{path} was written for another reference, and a new one begins new windows: `leadline run` puts this "
        f"state aside as {aside} and starts afresh: {MEANS}. Open episodes end."
    )

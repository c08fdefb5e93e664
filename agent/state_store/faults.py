"""What can be wrong with a state, and how damage is told from a disk, a lock or a permission in the way."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Fault(StrEnum):
    """Why a state cannot be used. Bounded, because it becomes a metric's label and part of a file's name."""

    CORRUPT = "corrupt"
    TRUNCATED = "truncated"
    FUTURE_VERSION = "future_version"
    OTHER_OWNER = "other_owner"


class UnusableError(Exception):
    """This state can never be used by this agent; `what` says what was found, without anything that is in it."""

    def __init__(self, fault: Fault, what: str) -> None:
        super().__init__(what)
        self.fault = fault
        self.what = what


class RefusedError(Exception):
    """The path cannot be used, and nothing says that a state of ours there is damaged: it must not be touched."""


# What the world around the file can cause; the low byte of SQLite's code is the kind of error.
_SURROUNDINGS = {
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
# Errors of the disk by kind, of the file by what they say: it ends too early, the file system found it damaged.
_DAMAGE = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS}


@contextmanager
def judged() -> Iterator[None]:
    """What goes wrong while a state is read, as an UnusableError if it is damage, else as a RefusedError."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # not SQLite's own
            if not isinstance(error, sqlite3.OperationalError):
                raise  # wrong use of the module is our mistake, and says nothing of the state
            # Text that is not UTF-8, which the message would quote.
            raise UnusableError(Fault.CORRUPT, "it is damaged: text in it cannot be decoded") from error
        if code & 0xFF in _SURROUNDINGS and code not in _DAMAGE:
            raise RefusedError(f"cannot be used: {error}") from error
        raise UnusableError(Fault.CORRUPT, f"it is damaged: {error}") from error
    except OSError as error:
        raise RefusedError(f"cannot be opened: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError) as error:  # UnicodeDecodeError is a ValueError
        raise UnusableError(Fault.CORRUPT, "it is damaged: its content cannot be read") from error

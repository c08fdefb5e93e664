"""Estimates that broke: a bounded list of reasons, and a log that neither repeats itself nor shows a text."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import structlog
from numpy.linalg import LinAlgError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Failure(StrEnum):
    """Why an estimate broke: every reason there is, for a metric's label must be bounded."""

    MEMORY = "memory"
    ARITHMETIC = "arithmetic"
    ERROR = "error"

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """The reason for this error."""
        if isinstance(error, MemoryError):
            return cls("memory")
        return cls("arithmetic") if isinstance(error, ArithmeticError | LinAlgError) else cls("error")


# Every reason from the start: Prometheus misses the first step of a series that appears with it.
NO_FAILURES: Mapping[str, int] = MappingProxyType(dict.fromkeys(map(str, Failure), 0))


def with_failure(failures: Mapping[str, int], reason: Failure) -> Mapping[str, int]:
    """The counts with one more of this reason."""
    return MappingProxyType({**failures, str(reason): failures[reason] + 1})


class Complaints:
    """Logs what breaks once for each slice, window and kind of error, until it works again. For one thread."""

    def __init__(self) -> None:
        self._open: set[tuple[tuple[str, str], str]] = set()

    def add(self, key: tuple[str, str], error: BaseException) -> None:
        """Log the error and where it came from. Not its message: a text might be in it."""
        complaint = (key, type(error).__name__)
        if complaint in self._open:
            return
        self._open.add(complaint)
        last = extract_tb(error.__traceback__)[-1]
        structlog.get_logger().error(
            "estimate_failed",
            slice=key[0],
            window=key[1],
            error=complaint[1],
            where=f"{Path(last.filename).name}:{last.lineno}",
        )

    def settle(self, key: tuple[str, str]) -> None:
        """It works again."""
        self._open = {each for each in self._open if each[0] != key}

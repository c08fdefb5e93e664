"""kafka-python's own warnings, as events of ours: seldom, and never with what it sends."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog
from kafka import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# A broker that is away is worth a line, not one for each attempt to reach it.
EVERY = 300.0
CLIENT = "kafka"
# In place of what may not be told.
HIDDEN = "…"
# What we say ourselves (`absent_topics`).
OURS = frozenset({"Topic %s not found in cluster metadata", "No partition metadata for topic %s"})


class ClientLogs(logging.Handler):
    """Passes on each kind of warning at most once in `EVERY` seconds.

    Whole messages hold what brokers and files answered. What is filled in is told only if it is a kind of error, a
    number, a partition or one of `names`; with nothing of that there is no line, nor for words that were put
    together before: they may hold anything.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._monotonic = monotonic
        self._said: dict[tuple[str, int], float] = {}
        self.names: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, unless it was said lately or says nothing."""
        now, place = self._monotonic(), (record.pathname, record.lineno)
        if now - self._said.get(place, float("-inf")) < EVERY:
            return
        said, errors = self._words(record), _errors(record)
        if said or errors:
            self._said[place] = now
            structlog.get_logger().warning(
                "kafka_client", logger=record.name, said=said or record.funcName, errors=errors
            )

    def _words(self, record: logging.LogRecord) -> str:
        """The words as the library's author wrote them, with what may be told filled in; empty if nothing may."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        told = tuple(map(self._told, arguments))
        if record.msg in OURS or all(each == HIDDEN for each in told):
            return ""
        try:
            return str(record.msg) % told
        except (TypeError, ValueError):
            return ""  # a number was wanted where something is hidden

    def _told(self, argument: object) -> object:
        if isinstance(argument, TopicPartition):
            return f"{argument.topic}:{argument.partition}"
        if isinstance(argument, int | float):
            return argument
        if isinstance(argument, str) and argument in self.names:
            return str(argument)
        return _error(argument) or HIDDEN


def _error(argument: object) -> str:
    """The name of this error or kind of error; empty for anything else."""
    kind = argument if isinstance(argument, type) else type(argument)
    return kind.__name__ if issubclass(kind, BaseException) else ""


def _errors(record: logging.LogRecord) -> list[str]:
    arguments = record.args if isinstance(record.args, tuple) else ()
    raised = record.exc_info[1] if record.exc_info else None
    return list(dict.fromkeys(filter(None, map(_error, (*arguments, raised)))))


def route_client_logs(names: Iterable[str] = ()) -> None:
    """Take over the logger of kafka-python, once. Its DEBUG lines, which hold requests, are never made.

    `names` are those of topics and groups: they may be told.
    """
    logger = logging.getLogger(CLIENT)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    ours = next((handler for handler in logger.handlers if isinstance(handler, ClientLogs)), None)
    if ours is None:
        ours = ClientLogs()
        logger.addHandler(ours)
    ours.names.update(names)


@contextmanager
def quiet() -> Iterator[None]:
    """Have kafka-python say nothing: for who tells what it found itself."""
    logger = logging.getLogger(CLIENT)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)

"""kafka-python's own warnings, as events of ours: seldom, and never with what it sends."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

# A broker that is away is worth a line, not one for each attempt to reach it.
EVERY = 300.0
CLIENT = "kafka"


class ClientLogs(logging.Handler):
    """Passes on each kind of warning at most once in `EVERY` seconds.

    Only where it was said and the kind of error: whole messages hold what brokers and files answered.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._monotonic = monotonic
        self._said: dict[tuple[str, int], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, unless it was said lately."""
        now, place = self._monotonic(), (record.pathname, record.lineno)
        if now - self._said.get(place, float("-inf")) < EVERY:
            return
        self._said[place] = now
        errors = [argument for argument in _arguments(record) if isinstance(argument, BaseException)]
        structlog.get_logger().warning(
            "kafka_client",
            logger=record.name,
            # The words as the library's author wrote them: what it fills in is left out.
            said=str(record.msg) if record.args else record.funcName,
            errors=[type(error).__name__ for error in errors],
        )


def _arguments(record: logging.LogRecord) -> tuple[object, ...]:
    return record.args if isinstance(record.args, tuple) else ()


def route_client_logs() -> None:
    """Take over the logger of kafka-python, once. Its DEBUG lines, which hold requests, are never made."""
    logger = logging.getLogger(CLIENT)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    if not any(isinstance(handler, ClientLogs) for handler in logger.handlers):
        logger.addHandler(ClientLogs())

"""What leaves a running agent: the pages it serves, and the letters it cannot use."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from agent.errors import ServiceError
from agent.messages import NoDeadLetters
from agent.sources.kafka.client_logs import route_client_logs
from agent.sources.kafka.connection import client_arguments
from exporters.dead_letters.file import DeadLetterFile
from exporters.dead_letters.kafka import DeadLetterTopic
from exporters.server import serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.config import RunConfig
    from agent.exporter_config import PrometheusConfig
    from agent.messages import DeadLetters
    from agent.report import Report
    from exporters.status.batches import Shown


def open_letters(config: RunConfig) -> DeadLetters:
    """Where this configuration wants dead letters. UsageError if a secret it names cannot be read."""
    letters = config.dead_letters
    if letters is None:
        return NoDeadLetters()
    if letters.file is not None:
        return DeadLetterFile(letters.file, letters.most_bytes)
    own, connection = letters.connection is not None, letters.connection or config.source.kafka
    assert connection is not None and letters.topic is not None  # noqa: PT018, S101 - the configuration's own check
    route_client_logs((letters.topic,))
    arguments = client_arguments(connection, where="dead_letters.connection" if own else "source.kafka")
    return DeadLetterTopic(letters.topic, arguments, letters.timeout)


class Served:
    """The pages of the newest snapshot, on a port that can be changed while they are served.

    `shown` is what the status page may show beside the snapshot.
    """

    def __init__(self, latest: Callable[[], Report], config: PrometheusConfig, shown: Shown | None = None) -> None:
        self._latest = latest
        self._shown = shown
        self._config = config
        self._stack = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        self._open(self._config)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def move(self, config: PrometheusConfig) -> None:
        """Serve there from now on. ServiceError if that is not possible; then the pages stay where they are."""
        if config == self._config:
            return
        if config.port and config.port == self._config.port:
            # One port cannot be had twice, even at two addresses of which one includes the other.
            self._stack.close()
            try:
                self._open(config)
            except ServiceError:
                self._open(self._config)
                raise
        else:
            old = self._stack
            self._open(config)
            old.close()
        self._config = config

    def _open(self, config: PrometheusConfig) -> None:
        stack = ExitStack()
        self.url = stack.enter_context(serving(self._latest, config.host, config.port, shown=self._shown)).url
        self._stack = stack

"""An HTTP intake on a real port, what came through it, and senders that misbehave."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any

from agent.batch import Batch
from agent.source_config import HttpSourceConfig
from agent.sources.http import HttpSource, Timing

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from agent.messages import Message

NATIVE = b'{"id": "a", "text": "fine"}'
ARRIVAL = 1_787_306_400.0
# Far more than a loopback needs; a test that waits so long has failed.
PATIENCE = 10.0


@dataclass
class Recorder:
    """Keeps the messages that a source makes batches of."""

    messages: list[Message] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def batch(self, messages: Sequence[Message], positions: Mapping[str, int]) -> Batch:
        """An empty batch."""
        self.messages += messages
        self.sizes.append(len(messages))
        return Batch(positions=positions)


@dataclass(frozen=True)
class Answer:
    """A response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Bench:
    """A source that is listening, and what it was given."""

    source: HttpSource
    recorder: Recorder
    trusted: Path | None = None

    def connect(self, context: ssl.SSLContext | None = None) -> HTTPConnection:
        """A client's connection."""
        if context is None:
            return HTTPConnection(*self.source.address, timeout=PATIENCE)
        return HTTPSConnection(*self.source.address, timeout=PATIENCE, context=context)

    def post(self, body: Any = NATIVE, path: str = "/", method: str = "POST", **headers: str) -> Answer:  # noqa: ANN401
        """The answer to one request on a connection of its own; `ce_id` becomes the header `ce-id`."""
        connection = self.connect()
        try:
            return ask(connection, body, path, method, **headers)
        finally:
            connection.close()

    def raw(self, sent: bytes) -> socket.socket:
        """A connection on which so much has been sent."""
        sender = socket.create_connection(self.source.address, timeout=PATIENCE)
        sender.sendall(sent)
        return sender

    def read(self) -> list[bytes | None]:
        """The bodies of what one read gives."""
        before = len(self.recorder.messages)
        self.source.read()
        return [message.body for message in self.recorder.messages[before:]]

    def read_all(self) -> list[bytes | None]:
        """The bodies of everything that waits."""
        bodies: list[bytes | None] = []
        while self.source._open is not None or not self.source._inbox.empty:
            bodies += self.read()
        return bodies

    def count(self, status: int) -> int:
        """How often this was answered."""
        return self.source.status().responses[str(status)]


def ask(
    connection: HTTPConnection,
    body: Any = NATIVE,  # noqa: ANN401 - whatever http.client sends
    path: str = "/",
    method: str = "POST",
    **headers: str,
) -> Answer:
    """The answer to one request on this connection."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    response = connection.getresponse()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


@contextmanager
def listening(size: int = 64, monotonic: Callable[[], float] = time.monotonic, **settings: Any) -> Iterator[Bench]:  # noqa: ANN401
    """A source with these settings, on a free port of this machine unless they say otherwise."""
    recorder = Recorder()
    config = HttpSourceConfig.model_validate({"port": 0} | settings)
    source = HttpSource(config, recorder, size, Timing(monotonic, lambda: ARRIVAL, "run"))
    try:
        source.seek({})
        yield Bench(source, recorder)
    finally:
        source.close()


def received(sender: socket.socket) -> bytes:
    """Everything that still comes on this connection."""
    pieces = []
    try:
        while piece := sender.recv(1 << 16):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    sender.close()
    return b"".join(pieces)


def until(condition: Callable[[], bool]) -> None:
    """Return once it holds; another thread makes it so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)

"""Events passed on to a second sink, in threads of their own: KServe has one slot for a logger, and we sit in it.

Delivery: never at the price of the intake. Beyond the queue's bytes the oldest events are dropped. An answer
of 408, 429 or 5xx, or none in time, is tried again a few times, so that the sink may see an event twice. Redirects
are not followed, and no proxy is taken from the environment.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections import Counter, deque
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.errors import UsageError
from agent.sources.http.inbox import OVERHEAD
from agent.sources.http.tls import client_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from agent.messages import Headers
    from agent.source_config import ForwardConfig

# One connection sends an event at a time, so that its rate is one over the sink's delay.
CONNECTIONS = 4
ATTEMPTS = 4
# The first pause between attempts (seconds); each next one is twice as long, and all are spread by half.
PAUSE = 0.2
AGAIN = frozenset({408, 429, 500, 502, 503, 504})
# The most of an answer that is read, to use the connection again; a longer one costs the connection.
LONGEST_ANSWER = 1 << 16
EXPECTED = "expected http(s)://host[:port]/path"
# How long a stop waits for what is queued (seconds).
LAST_CALL = 2.0
# How long threads are waited for then; one that is still connecting ends by itself.
LAST_JOIN = 1.0


@dataclass(frozen=True)
class Sink:
    """Where to: what a URL says, split once."""

    secure: bool
    host: str
    port: int | None
    target: str

    @classmethod
    def of(cls, url: str) -> Sink:
        """UsageError for a URL that cannot be posted to.

        >>> Sink.of("http://sink:8080/in?a=1")
        Sink(secure=False, host='sink', port=8080, target='/in?a=1')
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # Its words would show what stands where a password may.
            raise UsageError(f"source.http.forward.url: {EXPECTED}; the port is at most 65535") from None
        if not parts.hostname or parts.username is not None or parts.fragment:
            raise UsageError(f"source.http.forward.url: {EXPECTED}, without user or fragment")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if any(not "!" <= letter <= "~" for letter in target):
            raise UsageError("source.http.forward.url: the path has letters that must be percent-encoded")
        return cls(parts.scheme == "https", parts.hostname, port, target)


class Forwarder:
    """Passes events on from `start` until it is closed. UsageError for a sink that cannot be.

    `offer` may be called from any thread and never waits.
    """

    def __init__(self, config: ForwardConfig, jitter: Callable[[], float] = random.random) -> None:
        self._sink = Sink.of(config.url)
        self._certificates = client_context(config.tls) if self._sink.secure else None
        self._config = config
        self._jitter = jitter
        self._queue: deque[tuple[bytes, Headers]] = deque()
        self._held = 0
        self._busy = 0
        self._counts = Counter(sent=0, dropped=0, failed=0)
        self._changed = Condition()
        self._closing = Event()
        self._begun = False
        self._lines = [_Line(self._sink, config.timeout, self._certificates) for _ in range(CONNECTIONS)]
        self._threads = [
            Thread(target=self._work, args=(line,), name="leadline-forward", daemon=True) for line in self._lines
        ]

    def start(self) -> None:
        """Begin to pass on; events offered before wait in the queue."""
        self._begun = True
        for thread in self._threads:
            thread.start()

    @property
    def counts(self) -> dict[str, int]:
        """What became of the events so far."""
        with self._changed:
            return dict(self._counts)

    def offer(self, body: bytes, headers: Headers) -> None:
        """Have this event passed on, in place of the oldest if there is no room."""
        with self._changed:
            self._queue.append((body, headers))
            self._held += _weight(body)
            while self._held > self._config.queue_bytes:
                self._held -= _weight(self._queue.popleft()[0])
                self._counts["dropped"] += 1
            self._changed.notify()

    def close(self) -> None:
        """Pass on what is queued, for a moment; the rest is dropped. Ends soon after, whatever the sink does."""
        with self._changed:
            if self._begun:
                self._changed.wait_for(lambda: not self._queue and not self._busy, LAST_CALL)
            self._closing.set()
            self._counts["dropped"] += len(self._queue)
            self._queue.clear()
            self._held = 0
            self._changed.notify_all()
        for line in self._lines:
            line.cut()
        end = time.monotonic() + LAST_JOIN
        for thread in self._threads if self._begun else ():
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self, line: _Line) -> None:
        while (event := self._next()) is not None:
            outcome = "sent" if self._passed(line, *event) else "failed"
            with self._changed:
                self._counts[outcome] += 1
                self._busy -= 1
                self._changed.notify_all()
        line.close()

    def _next(self) -> tuple[bytes, Headers] | None:
        """The oldest event; None once there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._closing.is_set())
            if not self._queue:
                return None
            self._busy += 1
            body, headers = self._queue.popleft()
            self._held -= _weight(body)
            return body, headers

    def _passed(self, line: _Line, body: bytes, headers: Headers) -> bool:
        """Whether the sink took it, after a few attempts."""
        for attempt in range(ATTEMPTS):
            if attempt and self._closing.wait(PAUSE * 2**attempt * (0.5 + self._jitter())):
                return False
            status = line.post(body, headers)
            if status is not None and status not in AGAIN:
                return 200 <= status < 300  # noqa: PLR2004 - success, as HTTP has it
        return False


class _Line:
    """One connection to the sink, kept open from event to event. Used by one thread, cut by any."""

    def __init__(self, sink: Sink, timeout: float, certificates: ssl.SSLContext | None) -> None:
        self._sink = sink
        if sink.secure:
            self._connection: HTTPConnection = HTTPSConnection(
                sink.host, sink.port, timeout=timeout, context=certificates
            )
        else:
            self._connection = HTTPConnection(sink.host, sink.port, timeout=timeout)

    def post(self, body: bytes, headers: Headers) -> int | None:
        """The sink's status; None if it could not be had."""
        try:
            self._connection.request("POST", self._sink.target, body, dict(headers))
            with self._connection.getresponse() as response:
                response.read(LONGEST_ANSWER)
                if not response.isclosed():
                    self._connection.close()
                return response.status
        except (OSError, HTTPException, ValueError):  # ValueError: a chunk without a length
            self._connection.close()
            return None

    def cut(self) -> None:
        """End whatever is under way, from another thread: the connection breaks, and its own thread closes it."""
        found: socket.socket | None = self._connection.sock
        if found is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)  # not that of TLS, which would say goodbye first

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _weight(body: bytes) -> int:
    return len(body) + OVERHEAD

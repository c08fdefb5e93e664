"""A real HTTP server that answers as a test wants it to: well, badly, late or not at all."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self

from tests.children import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Asked:
    """A request: `path` with its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """An answer; one that is `late` comes only when the server stops."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    late: bool = False


class MoodyServer:
    """Answers with what `usual` gives, or with its `mood` while it has one; `asked` is what came so far.

    In a `with` block it is up; it keeps its port while it is down. With a `certificate`, a file that holds its key
    too, it speaks TLS.
    """

    def __init__(self, usual: Callable[[Asked], Answer], certificate: Path | None = None) -> None:
        (self.port,) = free_ports(1)
        self.mood: Answer | Callable[[Asked], Answer] | None = None
        self.asked: list[Asked] = []
        self._usual = usual
        self._certificate = certificate
        self._lock = Lock()
        self._server: ThreadingHTTPServer | None = None
        self._thread: Thread | None = None
        self._stopped = Event()

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"{'https' if self._certificate else 'http'}://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen."""
        self._stopped.clear()
        self._server = ThreadingHTTPServer((HOST, self.port), self._handler())
        if self._certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), name="moody", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more, and let late answers go."""
        self._stopped.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
        self._server = self._thread = None

    def answer(self, asked: Asked) -> Answer:
        """What there is to say to a request."""
        with self._lock:
            self.asked.append(asked)
            mood = self.mood
            if mood is None:
                return self._usual(asked)
            return mood if isinstance(mood, Answer) else mood(asked)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = server.answer(Asked(self.command, self.path, dict(self.headers), body))
                if answer.late:
                    server._stopped.wait()
                    return
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PATCH = do_DELETE = handle_one  # noqa: N815 - the names that are called

            def log_message(self, *_: object) -> None:
                """Nothing: the test says what matters."""

        return Handler


def eventually(holds: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    """Wait until this holds. AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)

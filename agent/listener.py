"""A port that is listened on, and the thread that serves an application there."""

from __future__ import annotations

import errno
import socket
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from uvicorn import Config, Server

from agent.errors import ServiceError

if TYPE_CHECKING:
    from ssl import SSLContext

# How long requests that are being answered may take to end once the server is told to (seconds).
GRACE = 3


class Address(NamedTuple):
    """Where something is served; the port is the real one."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Without a trailing slash.

        >>> Address("::1", 9464).url
        'http://[::1]:9464'
        """
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


class Listener:
    """A port, taken at once; port 0 takes a free one. ServiceError, which names `what`, if it cannot be had.

    The socket is bound here and not by uvicorn, which would end the process if it could not.
    """

    def __init__(self, host: str, port: int, what: str) -> None:
        self._socket = _bound(host, port, what)
        self._server: Server | None = None
        self._thread: Thread | None = None
        self.address = Address(*self._socket.getsockname()[:2])

    def start(self, config: Config, certificates: SSLContext | None = None) -> None:
        """Serve from now on, in a thread of its own."""
        config.load()
        config.ssl = certificates
        self._server = Server(config)
        # A daemon, because a process whose loop has crashed must not live on as a web server.
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="leadline-http", daemon=True)
        self._thread.start()

    @property
    def serving(self) -> bool:
        """Whether requests may still be answered."""
        return self._thread is not None and self._thread.is_alive()

    def finish(self) -> None:
        """Accept no more connections, and end once the requests under way are answered; returns at once."""
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Finish, wait for it, and free the port."""
        self.finish()
        if self._thread is not None:
            self._thread.join()
        self._socket.close()


def plain(app: Any, grace: int = GRACE, **settings: Any) -> Config:  # noqa: ANN401 - what uvicorn takes
    """One plain HTTP/1.1 protocol, no logging of its own, no trust in forwarded headers."""
    return Config(
        app,
        **{"http": "h11"} | settings,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=grace,
    )


def probe(host: str, port: int, what: str) -> str:
    """Says that the port is free, for a check. ServiceError if it is not."""
    _bound(host, port, what).close()
    return f"{host}:{port} is free" if port else f"any free port of {host}"


def _bound(host: str, port: int, what: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "the port is already in use" if taken else error.strerror
        raise ServiceError(f"cannot serve {what} on {host}:{port}: {reason}") from error
    # Inherited by every connection. asyncio sets it only where a socket names its protocol, and without it an
    # answer in two pieces waits for the reader's delayed acknowledgement, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener

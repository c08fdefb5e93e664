"""The HTTP server of the pages, in a thread beside the loop."""

from __future__ import annotations

import errno
import socket
import time
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from uvicorn import Config, Server

from agent.errors import ServiceError
from exporters.pages import Pages
from exporters.prometheus import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.applications import Starlette

    from agent.report import Report

STALE_AFTER = 60.0


class Address(NamedTuple):
    """Where the pages are served; the port is the real one."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Without a trailing slash.

        >>> Address("::1", 9464).url
        'http://[::1]:9464'
        """
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


@contextmanager
def serving(
    latest: Callable[[], Report],
    host: str,
    port: int,
    *,
    stale_after: float = STALE_AFTER,
    clock: Callable[[], float] = time.time,
) -> Iterator[Address]:
    """Serve the newest Report until the block ends; port 0 takes a free one. ServiceError if it cannot listen.

    `latest` is called from the server's thread. /livez fails once the heartbeat is `stale_after` seconds old.
    """
    pages = Pages(latest, registry_of(latest), stale_after, clock)
    listener = _listen(host, port)
    address = Address(*listener.getsockname()[:2])
    server = Server(_config(pages.app()))
    # A daemon, because a process whose loop has crashed must not live on as a web server.
    thread = Thread(target=server.run, args=([listener],), name="leadline-pages", daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket: bound here, not by uvicorn, which would end the process if it could not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "the port is already in use" if taken else error.strerror
        raise ServiceError(f"cannot serve metrics on {host}:{port}: {reason}") from error


def _config(app: Starlette) -> Config:
    """One plain HTTP/1.1 protocol, no logging of its own, no trust in forwarded headers."""
    return Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )

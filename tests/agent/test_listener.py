"""A port and the thread that serves there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from agent.errors import ServiceError
from agent.listener import Listener, plain, probe

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


async def in_two_pieces(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with a body."""
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"well"})


def test_answers_do_not_wait_for_an_acknowledgement() -> None:
    """Twenty answers that are written in two pieces take far less than twenty delayed acknowledgements."""
    listener = Listener("127.0.0.1", 0, "answers")
    listener.start(plain(in_two_pieces))
    begun = time.monotonic()
    for _ in range(20):
        with urlopen(listener.address.url, timeout=10) as answer:  # noqa: S310 - our own http address
            assert answer.read() == b"well"
    seconds = time.monotonic() - begun
    listener.close()
    assert seconds < 20 * 0.04


def test_the_port_is_held_from_the_start() -> None:
    """Before anything is served nobody else can have it; a probe says so, and leaves a free one free."""
    listener = Listener("127.0.0.1", 0, "answers")
    assert not listener.serving
    with pytest.raises(ServiceError, match=r"^cannot serve answers on .* the port is already in use$"):
        probe(*listener.address, "answers")
    listener.close()
    for _ in range(2):
        assert probe(*listener.address, "answers") == f"127.0.0.1:{listener.address.port} is free"

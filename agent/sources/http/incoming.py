"""One request as it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from agent.sources.http.answers import GoneError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from agent.messages import Headers as Kept
    from agent.sources.http.answers import Answer

# Kept with a message, beside those of a CloudEvent; no other header says what a body is, and some are secret.
KEPT = frozenset({"content-type", "x-request-id"})
# A body that is refused and no larger is read to its end, so that the connection can be used again.
SMALL = 1 << 16


class Incoming:
    """Its headers, and its body piece by piece; `complete` once the body is."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path: str = scope["path"]
        self.method: str = scope["method"]
        self.headers = Headers(raw=scope["headers"])
        self.complete = False
        self._receive = receive
        self._send = send

    @property
    def length(self) -> int | None:
        """How long the body claims to be; None if it does not."""
        given = self.headers.get("content-length")
        if given is None:
            return None if "transfer-encoding" in self.headers else 0
        return int(given)  # digits: the server has seen to it

    @property
    def small(self) -> bool:
        """Whether it costs less to read the body than to open a new connection."""
        return self.length is not None and self.length <= SMALL

    @property
    def kept_headers(self) -> Kept:
        """The headers that say what the body is; none of those that let the sender in."""
        return tuple(
            (name, value.encode("latin-1"))
            for name, value in self.headers.items()
            if name in KEPT or name.startswith("ce-")
        )

    async def piece(self) -> bytes:
        """The next piece of the body. GoneError if the sender has gone away."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        self.complete = not message.get("more_body", False)
        return bytes(message.get("body", b""))

    async def answer(self, answer: Answer, *, last: bool) -> None:
        """Send the answer; unless it is `last`, the connection stays as it is until `done`."""
        words = answer.words.encode()
        headers = [(b"content-length", b"%d" % len(words)), *answer.headers]
        if words:
            headers.append((b"content-type", b"text/plain; charset=utf-8"))
        if not last:
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": words, "more_body": not last})

    async def done(self) -> None:
        """End an answer that was not the last: the connection is closed."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

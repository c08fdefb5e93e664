"""The application that senders talk to: look at the headers, read the body within bounds, queue it, answer."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.messages import LABELS
from agent.sources.http import answers
from agent.sources.http.answers import Event, GoneError, RefusedError, too_large
from agent.sources.http.inbox import OVERHEAD, Delivery, Space
from agent.sources.http.incoming import Incoming
from agent.sources.http.unpack import unpacker

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from agent.source_config import HttpSourceConfig
    from agent.sources.http.answers import Tally
    from agent.sources.http.bearer import Bearer
    from agent.sources.http.forward import Forwarder
    from agent.sources.http.inbox import Inbox

EVENTS = "/"
# A sender that is refused half-way may go on for so long, or it would not see why (seconds).
LINGER = 2.0
# What is still arriving when the agent stops has so long to end (seconds); less than the listener's grace.
LAST_CALL = 2.0


@dataclass
class Door:
    """Who may come in, and what with. Its coroutines run on the server's thread.

    A body is held to `most_bytes` while it arrives and to `most_decompressed` while it is unpacked, and all that
    is arriving or waiting to `queue_bytes`. The answer is 200 once it is queued, before anything is decoded.
    """

    config: HttpSourceConfig
    inbox: Inbox
    tally: Tally
    bearer: Bearer | None
    forwarder: Forwarder | None
    epoch: Callable[[], float]
    stopping: bool = False
    _reading: set[asyncio.Timeout] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self._loop = asyncio.get_running_loop()
        incoming = Incoming(scope, receive, send)
        try:
            self._look(incoming)
            await self._take(incoming)
        except RefusedError as refused:
            await self._refuse(incoming, refused.answer)
        except GoneError:
            self.tally.saw(Event.SENDER_GONE)
        else:
            self.tally.answered(200)
            await incoming.answer(answers.ACCEPTED, last=True)

    def stop(self) -> None:
        """Take in no new request; those that are arriving must be done soon. May be called from any thread."""
        self.stopping = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has ended already
                self._loop.call_soon_threadsafe(self._hurry)

    def _hurry(self) -> None:
        soon = asyncio.get_running_loop().time() + LAST_CALL
        for timeout in self._reading:
            if not timeout.expired():
                timeout.reschedule(min(soon, timeout.when() or soon))

    def _look(self, incoming: Incoming) -> None:
        """Refuse what can be refused before its body is read; a sender that is not let in learns nothing else."""
        if self.bearer is not None and not self.bearer.admits(incoming.headers.get("authorization", "")):
            raise RefusedError(answers.UNKNOWN_SENDER)
        if incoming.path not in {EVENTS, LABELS}:
            raise RefusedError(answers.NOT_FOUND)
        if incoming.method != "POST":
            raise RefusedError(answers.NOT_ALLOWED)
        if self.stopping:
            raise RefusedError(answers.STOPPING)
        if len(self._reading) >= self.config.concurrency:
            raise RefusedError(answers.TOO_MANY)
        if (incoming.length or 0) > self.config.most_bytes:
            raise RefusedError(too_large(self.config.most_bytes, "most_bytes"))

    async def _take(self, incoming: Incoming) -> None:
        """Read the body and queue it."""
        space = Space(self.inbox)
        try:
            async with asyncio.timeout(self.config.timeout) as timeout:
                self._reading.add(timeout)
                try:
                    sent, content = await self._read(incoming, space)
                finally:
                    self._reading.discard(timeout)
            self._queue(incoming, sent, content, space)
        except TimeoutError:
            answer = answers.STOPPING if self.stopping else answers.TOO_SLOW
            raise RefusedError(answer) from None
        finally:
            space.give_back()

    async def _read(self, incoming: Incoming, space: Space) -> tuple[list[bytes], list[bytes]]:
        """The body as it was sent, where that is needed, and unpacked."""
        unpack = unpacker(",".join(incoming.headers.getlist("content-encoding")), self.config.most_decompressed)
        sent: list[bytes] = []
        content: list[bytes] = []
        received = 0
        self._hold(space, OVERHEAD)
        while not incoming.complete:
            piece = await incoming.piece()
            received += len(piece)
            if received > self.config.most_bytes:
                raise RefusedError(too_large(self.config.most_bytes, "most_bytes"))
            if self.forwarder is not None:
                self._hold(space, len(piece))
                sent.append(piece)
            for unpacked in unpack.feed(piece):
                self._hold(space, len(unpacked))
                content.append(unpacked)
        unpack.end()
        return sent, content

    @staticmethod
    def _hold(space: Space, size: int) -> None:
        if not space.grow(size):
            raise RefusedError(answers.FULL)

    def _queue(self, incoming: Incoming, sent: list[bytes], content: list[bytes], space: Space) -> None:
        body, headers = b"".join(content), incoming.kept_headers
        if not body and not any(name.startswith("ce-") for name, _ in headers):
            raise RefusedError(answers.EMPTY)
        weight = OVERHEAD + len(body)
        if not self.inbox.put(Delivery(body, incoming.path, headers, self.epoch(), weight)):
            raise RefusedError(answers.STOPPING)
        space.hand_over(weight)
        if self.forwarder is not None and incoming.path == EVENTS:
            encoding = incoming.headers.getlist("content-encoding")
            packed = tuple(("content-encoding", each.encode("latin-1")) for each in encoding)
            self.forwarder.offer(b"".join(sent), headers + packed)

    async def _refuse(self, incoming: Incoming, answer: answers.Answer) -> None:
        """Say why, so that the sender sees it: whoever is still sending would miss it if the connection closed."""
        self.tally.answered(answer.status)
        patient = not (answer is answers.TOO_SLOW or self.stopping or "expect" in incoming.headers)
        if patient and incoming.small:
            await self._skip(incoming)
        await incoming.answer(answer, last=incoming.complete)
        if not incoming.complete:
            if patient and not incoming.small:
                await self._skip(incoming)
            await incoming.done()

    @staticmethod
    async def _skip(incoming: Incoming) -> None:
        """Let the rest of the body pass, for a moment."""
        with contextlib.suppress(TimeoutError, GoneError):
            async with asyncio.timeout(LINGER):
                while not incoming.complete:
                    await incoming.piece()

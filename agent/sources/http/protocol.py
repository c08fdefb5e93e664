"""uvicorn's HTTP/1.1 with what it leaves open: deadlines for headers and answers, and a bound on connections.

Left to asyncio is only the TLS handshake, which it gives up after a minute; such connections are not counted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from agent.sources.http.answers import TOO_SLOW, Event

if TYPE_CHECKING:
    import asyncio

    from agent.sources.http.answers import Tally

# The most bytes of headers: several tokens and the attributes of an event.
MOST_HEADERS = 1 << 14
# What senders do wrong is counted, not logged: whoever can connect could fill the log.
LOGGER = logging.getLogger("leadline.http")
LOGGER.setLevel(logging.ERROR)


@dataclass(frozen=True)
class Rules:
    """The most connections at once, and how many seconds headers may take to arrive, and answers to be taken."""

    connections: int
    timeout: float
    tally: Tally


class Guarded(H11Protocol):
    """One connection. The time before the first byte of its first request counts too."""

    def __init__(self, rules: Rules, **parts: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**parts)
        self.logger = LOGGER
        self._rules = rules
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Where there are too many, make room by closing an idle one, or refuse this one."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self._rules.connections:
            others = (each for each in self.connections if isinstance(each, Guarded) and each is not self)
            idle = next((each for each in others if each.idle), None)
            if idle is None:
                self._rules.tally.saw(Event.CONNECTION_REFUSED)
            (idle or self).transport.close()

    @property
    def idle(self) -> bool:
        """Whether nothing of a request has come since the last one was answered."""
        return not self._begun and not self._under_way and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        """Once the headers are complete, the application keeps the time."""
        if self.transport.is_closing():
            return
        self._begun = self._begun or not self._under_way
        super().data_received(data)
        if self._under_way:
            self._unwatch()
            self._begun = False
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._unwatch()
        self._go_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Whoever asks and asks and takes no answer is cut off after a while."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._rules.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """It takes its answers after all."""
        self._go_on()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Counted like every other answer; nothing can be said any more where an answer was begun."""
        if self._under_way and self.cycle.response_started:
            self.transport.close()
            return
        self._rules.tally.answered(400)
        super().send_400_response(msg)

    @property
    def _under_way(self) -> bool:
        """Whether the headers of a request are complete and its answer is not."""
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr] # at first

    def _watch(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._rules.timeout, self._give_up)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _give_up(self) -> None:
        """Tell a sender that has begun a request; one that has not can be left without a word."""
        if not self.transport.is_closing():
            if self._begun:
                self._rules.tally.answered(TOO_SLOW.status)
                self.transport.write(_LATE)
            self.transport.close()


_LATE = (
    "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    f"Content-Length: {len(TOO_SLOW.words)}\r\n\r\n{TOO_SLOW.words}"
).encode()

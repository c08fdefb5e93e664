"""Records that are posted to the agent: CloudEvents, or bare bodies of the configured format.

Delivery: a sender is answered 200 once its request is in memory, and HTTP cannot be read twice. What waits there
is read out before the agent stops, for at most `drain`; what is left then is lost, counted and logged. What a
crash held there is lost.

Answers, each counted:

- 200, empty: taken in, and not yet decoded. What cannot be used is counted, not told.
- 400: not HTTP, no body, or a body that is not what its Content-Encoding says. 415: an unknown Content-Encoding.
- 401: no token, or a wrong one. 404, 405: not POST to `/` or `/labels`.
- 408: headers or body did not arrive within `timeout`.
- 413: more than `most_bytes` as sent, or `most_decompressed` unpacked. Sending it again does not help.
- 429: more than `concurrency` requests at once. The senders are too many or too slow: scoring is not behind.
- 503: `queue_bytes` are waiting or arriving, so that scoring is behind; or the agent is stopping.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

import structlog

from agent.listener import Address, Listener, plain
from agent.report import SourceStatus
from agent.sources.http.answers import Event, Tally
from agent.sources.http.bearer import Bearer
from agent.sources.http.door import Door
from agent.sources.http.forward import Forwarder
from agent.sources.http.inbox import Inbox
from agent.sources.http.protocol import MOST_HEADERS, Guarded, Rules
from agent.sources.http.reach import WHAT, exposed
from agent.sources.http.split import messages
from agent.sources.http.tls import renewing
from agent.sources.portion import BATCH_BYTES, Portion

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from uvicorn import Config

    from agent.batch import Batch
    from agent.intake import Intake
    from agent.messages import Message
    from agent.source_config import HttpSourceConfig
    from agent.sources.http.inbox import Delivery

# How long a read waits for the first message (seconds).
PATIENCE = 0.2
# Longer than Go's client keeps an idle connection: whoever closes first, the sender must not lose an event by it.
KEEP_ALIVE = 100
# Connections beyond four for each request at once: senders keep idle ones.
SPARE = 64

# What to do about requests that were lost.
TOO_LATE = (
    "raise source.http.drain, and terminationGracePeriodSeconds above it; or encode faster; or use Kafka, which "
    "can be read again"
)
CUT_OFF = "see why the agent ended; Kafka can be read again"


@dataclass(frozen=True)
class Timing:
    """The clocks, and what tells this run's messages from those of another."""

    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time
    run: str = field(default_factory=lambda: secrets.token_hex(4))


class HttpSource:
    """Takes in requests from `seek` on, and reads batches of about `size` records, of at most as many messages.

    The port is taken at once: ServiceError if it cannot be had, UsageError if a file is wrong.
    """

    def __init__(self, config: HttpSourceConfig, intake: Intake, size: int, timing: Timing | None = None) -> None:
        self._config = config
        self._intake = intake
        self._portion = Portion(size)
        self._timing = timing or Timing()
        self._tally = Tally()
        self._inbox = Inbox(config.queue_bytes)
        self._certificates = None if config.tls is None else renewing(config.tls, self._tally.saw)
        bearer = None if config.token_file is None else Bearer(config.token_file, self._tally.saw)
        self._forwarder = None if config.forward is None else Forwarder(config.forward)
        self._listener = Listener(config.host, config.port, WHAT)
        self._door = Door(config, self._inbox, self._tally, bearer, self._forwarder, self._timing.epoch)
        self._open: Delivery | None = None
        self._rest: Iterator[Message] = iter(())
        self._number = 0
        self._started = False
        self._deadline: float | None = None

    @property
    def address(self) -> Address:
        """Where senders reach it; the port is the real one."""
        return self._listener.address

    @property
    def url(self) -> str:
        """The same as senders write it."""
        url = self.address.url
        return url if self._certificates is None else url.replace("http:", "https:", 1)

    def seek(self, positions: Mapping[str, int]) -> None:
        """Open the door: there is nothing to go back to, and what was taken in before is gone."""
        del positions
        if not self._started:
            self._started = True
            for warning in exposed(self._config):
                structlog.get_logger().warning("intake_exposed", problem=warning)
            if self._forwarder is not None:
                self._forwarder.start()
            self._listener.start(self._served(), self._certificates)

    def read(self) -> Batch:
        """The next messages, decoded; an empty batch if none came in time."""
        taken: list[Message] = []
        size = 0
        while len(taken) < self._portion.messages and size < BATCH_BYTES:
            message = self._next(0.0 if taken else PATIENCE)
            if message is None:
                break
            taken.append(message)
            size += len(message.body or b"")
        batch = self._intake.batch(taken, {})
        self._portion.learn(len(taken), batch)
        return batch

    def commit(self, positions: Mapping[str, int]) -> bool:
        """Senders have been answered: nobody waits for this."""
        del positions
        return True

    def drain(self) -> bool:
        """Take nothing more in; whether something is left to read that would be lost.

        After `drain` it is lost: counted and logged, once, before the answer is False.
        """
        now = self._timing.monotonic()
        if self._deadline is None:
            self._deadline = now + self._config.drain
            self._door.stop()
            self._listener.finish()
        if now > self._deadline:
            self._lose(f"source.http.drain ({self._config.drain:g} s) was over", TOO_LATE)
            return False
        return self._listener.serving or not self._inbox.empty or self._open is not None

    def status(self) -> SourceStatus:
        """How the intake is doing."""
        return SourceStatus(
            stuck=self._started and self._deadline is None and not self._listener.serving,
            events=self._tally.events,
            responses=self._tally.responses,
            forwarded={} if self._forwarder is None else self._forwarder.counts,
            queue_bytes=self._inbox.held,
        )

    def close(self) -> None:
        """Let go of the port and the threads, within seconds. What the loop has left, as in a crash, is lost."""
        self.drain()
        self._listener.close()
        self._lose("the agent ended", CUT_OFF)
        if self._forwarder is not None:
            self._forwarder.close()

    def _next(self, patience: float) -> Message | None:
        """The next message of the request that is open, or of the next one; None if none comes in time."""
        while (message := next(self._rest, None)) is None:
            self._let_go()
            if not self._open_next(patience):
                return None
        return message

    def _open_next(self, patience: float) -> bool:
        """Begin with the oldest request; whether there was one in time."""
        self._open = self._inbox.take(patience)
        if self._open is None:
            return False
        self._number += 1
        origin = f"http:{self._timing.run}:{self._number}"
        self._rest = messages(self._open, origin, native=self._config.format == "native")
        return True

    def _let_go(self) -> None:
        if self._open is not None:
            self._inbox.release(self._open.weight)
            self._open, self._rest = None, iter(())

    def _lose(self, since: str, advice: str) -> None:
        """Shut the inbox; count and log the requests in it, with the one that is not read to its end."""
        lost = self._inbox.shut()
        if self._open is not None and next(self._rest, None) is not None:
            lost.append(self._open)
        self._let_go()
        if lost:
            self._tally.saw(Event.LOST_AT_STOP, len(lost))
            structlog.get_logger().error(
                "lost_at_stop",
                requests=len(lost),
                bytes=sum(len(delivery.body) for delivery in lost),
                problem=f"answered 200, but not scored to the end before {since}",
                advice=advice,
            )

    def _served(self) -> Config:
        rules = Rules(SPARE + 4 * self._config.concurrency, self._config.timeout, self._tally)
        protocol = cast("type[asyncio.Protocol]", partial(Guarded, rules))
        return plain(
            self._door, http=protocol, timeout_keep_alive=KEEP_ALIVE, h11_max_incomplete_event_size=MOST_HEADERS
        )

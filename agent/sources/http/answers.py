"""What senders are answered: a bounded set of statuses, each with a few plain words, each counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Answer:
    """A status, words that end in a line, and headers beside the usual ones."""

    status: int
    words: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()


class RefusedError(Exception):
    """This request is not taken in; `answer` is what its sender is told."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class GoneError(Exception):
    """The sender went away before its request was complete: nobody is left to answer."""


# Nothing stays full for long, and a sender that comes back later finds room or is told so again.
_SOON = ((b"retry-after", b"1"),)

ACCEPTED = Answer(200)
BROKEN = Answer(400, "The body cannot be unpacked: it is damaged, cut short, or not what Content-Encoding says.\n")
EMPTY = Answer(400, "The request has no body: post a record, a label or an event.\n")
UNKNOWN_SENDER = Answer(
    401,
    "Show the bearer token that this agent was configured with, in the header Authorization.\n",
    ((b"www-authenticate", b'Bearer realm="leadline"'),),
)
NOT_FOUND = Answer(404, "Nothing is here: post records and events to /, labels to /labels.\n")
NOT_ALLOWED = Answer(405, "Only POST is understood here.\n", ((b"allow", b"POST"),))
TOO_SLOW = Answer(408, "The request did not arrive in time.\n")
UNKNOWN_ENCODING = Answer(
    415,
    "Content-Encoding may be gzip, deflate or absent, and only one of them.\n",
    ((b"accept-encoding", b"gzip, deflate"),),
)
TOO_MANY = Answer(429, "Too many requests at once: try again, with fewer at a time.\n", _SOON)
FULL = Answer(503, "More is waiting to be scored than may wait: try again later.\n", _SOON)
STOPPING = Answer(503, "The agent is stopping and takes nothing more in: try again later.\n", _SOON)


def too_large(most: int, key: str) -> Answer:
    r"""413, with the setting to raise.

    >>> too_large(1024, "most_bytes").words
    'The body is larger than 1,024 bytes (source.http.most_bytes): send fewer records at once.\n'
    """
    return Answer(
        413, f"The body is larger than {most:,} bytes (source.http.{key}): send fewer records at once.\n"
    )


STATUSES = (200, 400, 401, 404, 405, 408, 413, 415, 429, 503)


class Event(StrEnum):
    """What happened to the intake itself, beside its answers. Bounded, because it becomes a metric's label."""

    SENDER_GONE = "sender_gone"
    CONNECTION_REFUSED = "connection_refused"
    TOKEN_UNREADABLE = "token_unreadable"  # noqa: S105 - not a token
    CERTIFICATE_UNREADABLE = "certificate_unreadable"
    LOST_AT_STOP = "lost_at_stop"


class Tally:
    """Counts answers by status and events by name, every one from the start. Each is written by one thread."""

    def __init__(self) -> None:
        self._responses = Counter({str(status): 0 for status in STATUSES})
        self._events = Counter({event.value: 0 for event in Event})

    def answered(self, status: int) -> None:
        """One more answer."""
        self._responses[str(status)] += 1

    def saw(self, event: Event, times: int = 1) -> None:
        """It happened, so often."""
        self._events[event.value] += times

    @property
    def responses(self) -> dict[str, int]:
        """Answers by status."""
        return dict(self._responses)

    @property
    def events(self) -> dict[str, int]:
        """Events by name."""
        return dict(self._events)

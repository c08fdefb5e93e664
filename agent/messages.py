"""What a transport delivers: messages, rows of tables, and the letters that unusable messages become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.reasons import Reason

# A channel whose messages are labels in native form, whatever format the source's other messages have.
LABELS = "/labels"
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message, before anything is known of it.

    `origin` names it, for example `traffic:2:1041` for topic, partition and offset; `channel` is the topic or the
    path; `arrival` is in epoch seconds, and so is `stamp`, when the transport says that it was written (0: it does
    not say). Header names are as they came. A `body` of None is a tombstone, or nobody
    knows what it was: there is a message at this origin, and it is `unreadable` as the transport delivers it.
    """

    body: bytes | None
    origin: str
    arrival: float
    channel: str = ""
    headers: Headers = ()
    key: bytes | None = None
    unreadable: bool = False
    stamp: float = 0.0

    def header(self, name: str) -> bytes | None:
        """The value of the last header of this lower-case name, however its case came."""
        found = None
        for given, value in self.headers:
            if given.lower() == name:
                found = value
        return found


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table as native fields, or the reason why it has none."""

    fields: dict[str, object] | Reason
    origin: str
    arrival: float


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of which `items` records could not be used, for one bounded reason."""

    message: Message
    reason: str
    items: int = 1


class DeadLetters(Protocol):
    """Where messages go that cannot be used. Called from the loop's thread."""

    def deliver(self, letters: Sequence[DeadLetter]) -> None:
        """Keep these letters for good; returns once they are. ServiceError if that cannot be had in time.

        After a crash the same letter may come twice: its origin tells.
        """

    def close(self) -> None:
        """Let go of connections and files."""


class NoDeadLetters:
    """For an agent that only counts what it cannot use."""

    def deliver(self, letters: Sequence[DeadLetter]) -> None:
        """Nothing to keep."""

    def close(self) -> None:
        """Nothing to let go of."""

"""What was taken in and is not yet read, bounded in bytes together with what is still arriving."""

from __future__ import annotations

from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.messages import Headers

# What a request costs beside its body, roughly: objects, headers and their names.
OVERHEAD = 1024


@dataclass(frozen=True, slots=True)
class Delivery:
    """The unpacked body of one request that was answered 200, and the `weight` it has in the inbox.

    `channel` is the path, `arrival` is in epoch seconds.
    """

    body: bytes
    channel: str
    headers: Headers
    arrival: float
    weight: int


class Inbox:
    """First in, first out, until it is shut. Filled by the server's thread, emptied by the loop's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._shut = False
        self._lock = Lock()
        self._waiting: SimpleQueue[Delivery] = SimpleQueue()

    @property
    def held(self) -> int:
        """Bytes that wait or are arriving."""
        return self._held

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be read."""
        return self._waiting.empty()

    def reserve(self, size: int) -> bool:
        """Set so many bytes aside; whether there was room."""
        with self._lock:
            if self._held + size > self._most:
                return False
            self._held += size
            return True

    def release(self, size: int) -> None:
        """Give back bytes that were set aside."""
        with self._lock:
            self._held -= size

    def put(self, delivery: Delivery) -> bool:
        """Add a delivery, whose weight has been reserved; whether it is not too late for that."""
        with self._lock:
            if not self._shut:
                self._waiting.put(delivery)
            return not self._shut

    def take(self, patience: float) -> Delivery | None:
        """The oldest, which still has its weight until that is released; None if none comes within so long."""
        try:
            return self._waiting.get(timeout=patience) if patience > 0 else self._waiting.get_nowait()
        except Empty:
            return None

    def shut(self) -> list[Delivery]:
        """Take nothing more in, and let go of what waits; what that was."""
        with self._lock:
            self._shut = True
        left = list(iter(lambda: self.take(0.0), None))
        self.release(sum(delivery.weight for delivery in left))
        return left


class Space:
    """What one request that is arriving holds of the inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.size = 0

    def grow(self, size: int) -> bool:
        """Hold so much more; whether there was room."""
        if not self._inbox.reserve(size):
            return False
        self.size += size
        return True

    def give_back(self) -> None:
        """Hold nothing any more."""
        self._inbox.release(self.size)
        self.size = 0

    def hand_over(self, keep: int) -> None:
        """Leave `keep` of it to a delivery and give the rest back."""
        self._inbox.release(self.size - keep)
        self.size = 0

"""Messages that were read and not yet taken, bounded in bytes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.messages import Message
    from agent.sources.kafka.holding import Holding

# What Python itself needs for a message, its headers and its place in the queue.
OVERHEAD = 500


@dataclass(slots=True)
class Fetched:
    """A message, where it is from, and the offset after it."""

    holding: Holding
    following: int
    message: Message

    @property
    def size(self) -> int:
        """About how many bytes it holds on to."""
        message = self.message
        headers = sum(len(name) + len(value) for name, value in message.headers)
        return OVERHEAD + len(message.body or b"") + len(message.key or b"") + headers


class ByteQueue:
    """First in, first out. Full from `most` bytes on until it has sunk to half of that."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[tuple[Fetched, int]] = deque()
        self.bytes = 0
        self.full = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, fetched: Iterable[Fetched]) -> None:
        """Append these, whether or not it is full: what was read must go somewhere."""
        for one in fetched:
            size = one.size
            one.holding.queued += 1
            self.bytes += size
            self._waiting.append((one, size))
        self._judge()

    def take(self, most: int) -> list[Fetched]:
        """The oldest, at most so many."""
        taken = []
        for _ in range(min(most, len(self._waiting))):
            one, size = self._waiting.popleft()
            one.holding.queued -= 1
            self.bytes -= size
            taken.append(one)
        self._judge()
        return taken

    def clear(self) -> None:
        """Drop everything."""
        self.take(len(self._waiting))

    def _judge(self) -> None:
        self.full = self.bytes >= self._most or (self.full and self.bytes > self._most // 2)

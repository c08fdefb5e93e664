"""Messages that were read and not yet taken, bounded in bytes, and handed out in the order they were written.

A partition can be read far ahead of the others, above all after a long stop. Taken in that order its records would
move time on, and make those of the others late. So the oldest message of all partitions is taken first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
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
    """Oldest first by stamp, each partition in its own order. Full from `most` bytes on until half are left."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[Holding, deque[tuple[Fetched, int]]] = {}
        # The stamp of each partition's next message; the number settles ties, in favour of who waits longest.
        self._heads: list[tuple[float, int, Holding]] = []
        self._number = 0
        self._length = 0
        self.bytes = 0
        self.full = False

    def __len__(self) -> int:
        return self._length

    def put(self, fetched: Iterable[Fetched]) -> None:
        """Append these, whether or not it is full: what was read must go somewhere."""
        for one in fetched:
            size = one.size
            one.holding.queued += 1
            self.bytes += size
            self._length += 1
            line = self._waiting.setdefault(one.holding, deque())
            line.append((one, size))
            if len(line) == 1:
                self._queue_up(one)
        self._judge()

    def _queue_up(self, head: Fetched) -> None:
        self._number += 1
        # Not later than it was read: with a clock that is ahead it would wait until the others have nothing more.
        stamp = min(head.message.stamp, head.message.arrival)
        heappush(self._heads, (stamp, self._number, head.holding))

    def take(self, most: int, most_bytes: float = inf) -> list[Fetched]:
        """The oldest, at most so many, and at most so many bytes and one message more.

        Fewer if a partition runs out that has more to read: that may be older than what the others have.
        """
        taken: list[Fetched] = []
        least = self.bytes - most_bytes
        while self._heads and len(taken) < most and self.bytes > least:
            _, _, holding = heappop(self._heads)
            line = self._waiting[holding]
            one, size = line.popleft()
            if line:
                self._queue_up(line[0][0])
            else:
                del self._waiting[holding]
            holding.queued -= 1
            self.bytes -= size
            self._length -= 1
            taken.append(one)
            if holding.missing:
                break
        self._judge()
        return taken

    def clear(self) -> None:
        """Drop everything."""
        for holding in self._waiting:
            holding.queued = 0
        self._waiting.clear()
        self._heads.clear()
        self._length = self.bytes = 0
        self._judge()

    def _judge(self) -> None:
        self.full = self.bytes >= self._most or (self.full and self.bytes > self._most // 2)

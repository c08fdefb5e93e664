"""How much a source takes for one batch, so that the loop comes around soon, whatever the messages hold."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.batch import Batch

# The most bytes of one batch, and one message more: decoded, they take several times as much.
BATCH_BYTES = 1 << 22
# So many batches are remembered: requests alternate with responses, and large messages with small ones.
REMEMBERED = 3
# Messages become smaller, or a quiet time ends: the next batch has at most so many times as many.
GROWTH = 4


class Portion:
    """Of messages, as many as make about `size` records: at least one, at most `size`; one at first.

    Pure. It goes by the batch of the last few that had the most records a message, so that messages that have
    become larger make one batch too large, and no more than that.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._each: deque[float] = deque(maxlen=REMEMBERED)
        self.messages = 1

    def learn(self, messages: int, batch: Batch) -> None:
        """Of so many messages came this batch; a batch of none teaches nothing."""
        if not messages:
            return
        # A half that now waits for the other has been decoded, but a record only comes with the other.
        self._each.append((batch.settled + max(batch.waiting, 0) + len(batch.labels)) / messages)
        each = max(1.0, *self._each)
        self.messages = max(1, min(int(self._size / each), GROWTH * self.messages))

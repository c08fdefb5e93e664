"""A partition that is assigned to us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.sources.kafka.placing import Partition

# The name and number by which kafka-python knows a partition.
Spot = tuple[str, int]


@dataclass(slots=True, eq=False)
class Holding:
    """`place` is None until we know where to read it; `gone` says that it can be read no more where we were.

    `position` is what the loop takes next, once it was `told` where we began; `reached` is what we read next.
    `end` is that of the log, `committed` what the broker holds of our own state, `queued` how many are queued, and
    `awaited` whether the loop has waited for the next one in vain.
    """

    spot: Spot
    place: Partition | None = None
    gone: bool = False
    told: bool = False
    position: int = 0
    reached: int = 0
    end: int = 0
    committed: int | None = None
    queued: int = 0
    awaited: bool = False

    def begin(self, place: Partition, offset: int, end: int, committed: int | None) -> None:
        """Read from `offset` on; the loop has yet to be told."""
        self.place, self.gone, self.told = place, False, False
        self.position = self.reached = offset
        self.end, self.committed = end, committed
        self.awaited = False

    def unplace(self) -> None:
        """Forget where to read."""
        self.place, self.gone, self.told = None, False, False

    @property
    def astray(self) -> bool:
        """Whether it must be placed. What was read before it was gone is taken first."""
        return self.place is None or (self.gone and not self.queued)

    @property
    def settled(self) -> bool:
        """Whether the broker has what the loop has taken."""
        return not self.told or self.committed == self.position

    @property
    def unread(self) -> int:
        """How many offsets of the log we have not yet read."""
        return max(0, self.end - self.reached)

    @property
    def missing(self) -> bool:
        """Whether it has something to read that was not read yet, while others may have theirs ready."""
        return not (self.queued or self.awaited or self.gone) and self.place is not None and self.unread > 0

    def lag(self, *, dropped: bool) -> int:
        """How many the loop has not taken. `dropped` says that what was read and not taken was thrown away."""
        # The last offsets of a log may hold no record, but the end of a transaction: nobody ever takes those.
        done = self.position if self.queued or dropped else max(self.position, self.reached)
        return max(0, self.end - done)

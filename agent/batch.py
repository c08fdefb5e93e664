"""What one read of a source gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.reasons import HARMLESS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.messages import DeadLetter
    from agent.reasons import Reason
    from agent.records import Label, Record


@dataclass(frozen=True)
class Batch:
    """What one read gave: records, how many others were rejected and why, and where to go on afterwards.

    `letters` are messages whose records were rejected and must be kept elsewhere before the positions pass them.
    `waiting` is by how much the number of halves that wait for their other half grew, `unpaired` how many of each
    kind waited in vain.
    `positions` maps a partition of the source to what to read next there; `ended` says that nothing will follow.
    `settle` says that the source is about to give partitions up and wants a checkpoint first, `lost` that they
    are gone already: what was counted since the last confirmed checkpoint is somebody else's. A batch that is lost
    holds nothing else.
    """

    records: tuple[Record, ...] = ()
    rejected: Mapping[Reason, int] = field(default_factory=dict)
    letters: tuple[DeadLetter, ...] = ()
    labels: tuple[Label, ...] = ()
    waiting: int = 0
    unpaired: Mapping[str, int] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False
    settle: bool = False
    lost: bool = False

    @property
    def dead(self) -> int:
        """Every record in the letters."""
        return sum(letter.items for letter in self.letters)

    @property
    def settled(self) -> int:
        """Every record of which it is now known whether it is usable, however long ago it was received."""
        return len(self.records) + sum(self.rejected.values()) + self.dead

    @property
    def received(self) -> int:
        """Every record that began with this read, usable or not; a request and its response are one.

        Less than nothing where more halves found their other half than came.
        """
        return self.settled + self.waiting

    @property
    def unusable(self) -> int:
        """How many records could not be used for what they are, not for when or how often they came."""
        return self.dead + sum(count for reason, count in self.rejected.items() if reason not in HARMLESS)

"""What the agent must not forget, beside its panes and positions, so that each record counts once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.duplicates import Seen
    from agent.pairing import Pairing
    from agent.slices import Slices


@dataclass(frozen=True)
class Memory:
    """The slices that have a name of their own, the halves that wait, and the events seen lately."""

    slices: Slices
    pairing: Pairing
    seen: Seen

"""What the agent must not forget, beside its panes and positions, so that each record counts once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.annotation.texts import NoTexts

if TYPE_CHECKING:
    from agent.annotation.texts import Texts
    from agent.duplicates import Seen
    from agent.pairing import Pairing
    from agent.slices import Slices


@dataclass(frozen=True)
class Memory:
    """The slices with a name of their own, the halves that wait, the events seen lately, and texts to show."""

    slices: Slices
    pairing: Pairing
    seen: Seen
    texts: Texts = field(default_factory=NoTexts)

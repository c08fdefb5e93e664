"""When a text is too old to be kept or shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.annotation.batch import Item

# A text that was kept so much later than now (seconds) was kept while the clock was ahead.
AHEAD = 86_400.0


@dataclass(frozen=True)
class Term:
    """For how long texts are `keep`-t (seconds), seen from `now` (epoch seconds)."""

    now: float
    keep: float

    def is_over(self, kept: float) -> bool:
        """Whether a text that was kept then must go. So must one of the future: it would stay as much longer."""
        return kept <= self.now - self.keep or kept > self.now + AHEAD

    def allowed(self, item: Item) -> Item:
        """The item as it may be shown: without its text if that must go, or if nobody knows its age."""
        if item.text is None or (item.text_kept is not None and not self.is_over(item.text_kept)):
            return item
        return item.without_text()

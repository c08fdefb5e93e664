"""What the store needs of a state, and what has changed of it since it was last kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from agent.annotation.texts import Key, Texts
    from agent.decision import Decision
    from agent.duplicates import Seen
    from agent.pairing import Pairing
    from agent.records import Label
    from agent.slices import Slices
    from agent.windows import Windows

# Labels that came on their own, the newest of them.
MOST_LABELS = 100_000


class Kept(Protocol):
    """What the store needs of a state."""

    @property
    def windows(self) -> Windows:
        """The panes and the seal."""

    @property
    def slices(self) -> Slices:
        """The names with a slice of their own."""

    @property
    def positions(self) -> dict[str, int]:
        """Where to read on, by partition."""

    @property
    def pairing(self) -> Pairing:
        """The halves that wait."""

    @property
    def seen(self) -> Seen:
        """The events seen lately."""

    @property
    def decision(self) -> Decision:
        """The evidence and the episodes."""

    @property
    def texts(self) -> Texts:
        """The texts of sampled items, where they are kept."""

    def take_labels(self) -> Sequence[Label]:
        """The labels that arrived on their own since the last call."""

    def resume(self) -> None:
        """Take note that everything was restored."""


@dataclass
class Changes:
    """What has changed since the last checkpoint that became durable, kept until the next one is.

    `all_seen` says that `seen` is everything remembered, not only what came.
    """

    panes: set[tuple[str, int]] = field(default_factory=set)
    halves: set[str] = field(default_factory=set)
    seen: list[int] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    texts: set[Key] = field(default_factory=set)
    all_seen: bool = False

    def take(self, state: Kept, stored: Container[str]) -> None:
        """Add what has changed since it was last asked for; `stored` are the halves that the store holds.

        Halves that came and went in between are nothing to be kept: while saves fail, there is no end to them.
        """
        self.panes.update(state.windows.take_changed())
        self.halves.update(state.pairing.take_changed())
        waiting = state.pairing.halves
        self.halves = {place for place in self.halves if place in waiting or place in stored}
        self.texts.update(state.texts.take_changed())
        added = state.seen.take_added()
        if state.seen.take_replaced():
            # Rolled back to what the source has taken note of; whatever could not be saved came after that.
            self.all_seen, self.labels = True, []
            self.seen, added = [], list(state.seen.snapshot())
        self.seen += added
        del self.seen[: max(0, len(self.seen) - state.seen.remember)]
        self.labels = [*self.labels, *state.take_labels()][-MOST_LABELS:]

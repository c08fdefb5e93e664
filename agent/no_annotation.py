"""For an agent that writes no annotation batches: episodes are told about, and nothing is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.alert_report import Asked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from agent.alert_report import Episode
    from agent.records import Label
    from agent.report import DropEstimate
    from agent.window_contents import EndedWindow


class NoAnnotation:
    """Asks nobody."""

    def ask(self, episode: Episode, window: EndedWindow, estimate: DropEstimate | None) -> None:
        """Write nothing."""

    def lacks(self, episode: str) -> bool:
        """No batch is wanted."""
        del episode
        return False

    def change(self, precision: float) -> None:
        """Nothing changes."""

    def take(self, labels: Sequence[Label]) -> None:
        """Keep none: nothing was asked."""

    def tidy(self, now: float, asking: Collection[str]) -> None:
        """Nothing is due."""

    def acquitted(self, max_drop: float) -> Iterable[str]:
        """None."""
        del max_drop
        return ()

    def told(self) -> Asked:
        """Nothing."""
        return Asked()

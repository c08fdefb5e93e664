"""What stands in for the estimates where a reference allows none: every window is told why, and that is all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from agent.report import DropEstimate, Estimation, WindowEstimate

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from agent.window_contents import EndedWindow


class NoEstimates:
    """Takes the place of EstimateJob without a thread, merging nothing."""

    def __init__(self, reason: str, epoch: Callable[[], float]) -> None:
        self._reason = reason
        self._epoch = epoch
        self._made: list[WindowEstimate] = []
        self.latest = Estimation()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def offer(self, windows: tuple[EndedWindow, ...]) -> None:
        """Say of each of these windows why there is no estimate."""
        for window in windows:
            made = WindowEstimate(*window.key, window.end, self._epoch(), self.of(window))
            self.latest = self.latest.with_estimate(window.key, made)
            self._made.append(made)

    def of(self, window: EndedWindow) -> DropEstimate:
        """Why there is none."""
        return DropEstimate(n=window.items, level=float("nan"), reason=self._reason)

    def take(self) -> list[WindowEstimate]:
        """What was said since the last call."""
        made, self._made = self._made, []
        return made

    def unfinished(self, stop: Event) -> bool:
        """Never: there is nothing to wait for."""
        del stop
        return False

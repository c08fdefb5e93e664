"""A steady rate for replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# The longest a reader is held up at once, so that it notices a stop (seconds).
PATIENCE = 0.25


class Pace:
    """Lets `rate` records a second through, counted from the first call; None lets everything through."""

    def __init__(self, rate: float | None, clock: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._rate = rate
        self._clock = clock
        self._wait = wait
        self._started: float | None = None
        self._sent = 0

    def allow(self, most: int) -> int:
        """How many records may go now, at most `most`; waits a moment for a full batch to become due."""
        if self._rate is None:
            return most
        if self._started is None:
            self._started = self._clock()
        missing = self._sent + most - self._due()
        if missing > 0:
            self._wait(min(missing / self._rate, PATIENCE))
        allowed = max(0, min(most, int(self._due()) - self._sent))
        self._sent += allowed
        return allowed

    def _due(self) -> float:
        started = self._clock() if self._started is None else self._started
        return (self._clock() - started) * (self._rate or 0.0)

"""Tells a source that waits from one that hangs."""

from __future__ import annotations


class Watchdog:
    """Stuck once `patience` seconds (monotonic) have passed with something to read and nothing read."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._turned: float | None = None

    def turn(self, now: float) -> None:
        """The reading thread has come around."""
        self._turned = now

    def rest(self) -> None:
        """Something was read, or there is nothing that should be."""
        self._since = None

    def wait(self, now: float) -> None:
        """There is something to read, the broker answers, and nothing has come."""
        if self._since is None:
            self._since = now

    def stuck(self, now: float) -> bool:
        """Whether only a restart will help: nothing is read, or the thread itself hangs in a call."""
        return any(then is not None and now - then >= self._patience for then in (self._since, self._turned))

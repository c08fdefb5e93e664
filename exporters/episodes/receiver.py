"""What a receiver of episodes is, and which of them have changed since it was told last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agent.errors import ServiceError

if TYPE_CHECKING:
    from agent.alert_report import Episode, Notified
    from agent.report import Report


class Receiver(Protocol):
    """Somebody who is told of episodes, by a thread of its own."""

    def start(self) -> None:
        """Begin to tell; what is said before waits."""

    def tell(self, report: Report) -> None:
        """Have the receiver told what is new in `report.alerts.episodes`. Returns at once and never raises."""

    @property
    def notified(self) -> Notified:
        """How the telling goes."""

    def close(self, patience: float) -> None:
        """Tell what waits, for at most `patience` seconds, then end, a second later at most."""


class ReceiverError(ServiceError):
    """A receiver could not be told this time. It is tried again, after `after` seconds at the earliest."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class Changes:
    """Finds the episodes of which something new is to be said since the last call. Used from one thread.

    That is those that are new, that ended, or of which more is known. They are compared as they are written out,
    because NaN equals nothing.
    """

    def __init__(self) -> None:
        self._last: tuple[Episode, ...] = ()
        self._seen: dict[str, str] = {}

    def of(self, episodes: tuple[Episode, ...]) -> list[Episode]:
        """Those that differ from what they were at the last call, in their order."""
        if episodes is self._last:
            return []
        said = {episode.id: repr(episode) for episode in episodes}
        found = [episode for episode in episodes if self._seen.get(episode.id) != said[episode.id]]
        self._last, self._seen = episodes, said
        return found

"""Episodes that wait to be told: bounded, and only the newest state of each."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.alert_report import Episode

MOST = 100


@dataclass(frozen=True, eq=False)
class Told:
    """An episode of a model, as it is to be told."""

    model: str
    episode: Episode


class Waiting:
    """A queue with one place an episode: a newer state takes the place of the older. Used from any thread.

    Beyond `most` episodes the one that has waited longest is dropped, and counted.
    """

    def __init__(self, most: int = MOST) -> None:
        self.dropped = 0
        self._most = most
        self._held: dict[str, Told] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def put(self, told: Told) -> None:
        """Have this told."""
        with self._lock:
            self._held[told.episode.id] = told
            if len(self._held) > self._most:
                del self._held[next(iter(self._held))]
                self.dropped += 1

    def first(self) -> Told | None:
        """The next one, which stays in the queue; None where there is none."""
        with self._lock:
            return next(iter(self._held.values()), None)

    def done(self, told: Told) -> None:
        """It has been told; a newer state that came meanwhile stays."""
        with self._lock:
            if self._held.get(told.episode.id) is told:
                del self._held[told.episode.id]

    def later(self, told: Told) -> None:
        """It could not be told: the others first, because it may be the trouble."""
        with self._lock:
            newest = self._held.pop(told.episode.id, None)
            if newest is not None:
                self._held[told.episode.id] = newest

"""Episodes sent to Alertmanagers directly, for those who have no Prometheus rules.

Each Alertmanager has a thread of its own, so that one that is down keeps no other from hearing. A firing alert is
sent again and again, and ends by itself once nobody does. Nothing is kept here: what fires is in the Report.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.alert_report import Notified
from exporters.episodes.alerts import Wording, alerts_of
from exporters.episodes.receiver import Changes
from exporters.episodes.request import Door
from exporters.episodes.worker import LAST_CALL, LAST_JOIN, Pace, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.alert_report import Episode
    from agent.report import Report
    from exporters.episodes.address import Address
    from exporters.episodes.secret import TokenFile

ALERTS = "/api/v2/alerts"
PLAIN = Wording()


@dataclass(frozen=True)
class Alertmanagers:
    """Whom to tell, and how: firing alerts again `every` so many seconds."""

    addresses: Sequence[Address]
    token: TokenFile | None = None
    wording: Wording = PLAIN
    every: float = 60.0
    timeout: float = 10.0

    def door(self, address: Address) -> Door:
        """How one of them is asked."""
        return Door("Alertmanager", address, self.token, self.timeout)


@dataclass(frozen=True, eq=False)
class _Standing:
    """The episodes as they stand."""

    model: str
    episodes: tuple[Episode, ...]


NOTHING = _Standing("", ())


class AlertmanagerSink:
    """Tells every Alertmanager of episodes. `clock` gives epoch seconds."""

    def __init__(
        self, whom: Alertmanagers, pace: Pace | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        # A try in each round at least: an alert that fires must not end while we wait.
        pace = replace(pace or Pace(), most=min((pace or Pace()).most, whom.every))
        self._changes = Changes()
        self._lines = [_Line(whom, address, pace, clock) for address in whom.addresses]

    def start(self) -> None:
        """Begin to tell."""
        for line in self._lines:
            line.worker.start()

    def tell(self, report: Report) -> None:
        """Have all of them told at once of what is new about episodes; of the others they are told in turn."""
        if self._changes.of(report.alerts.episodes):
            standing = _Standing(report.info.model, report.alerts.episodes)
            for line in self._lines:
                line.tell(standing)

    @property
    def notified(self) -> Notified:
        """How the telling of all goes; nothing is dropped, because only the newest state counts."""
        return Notified(
            sent=sum(line.sent for line in self._lines),
            failed=sum(line.worker.failed for line in self._lines),
            waiting=sum(line.waiting for line in self._lines),
        )

    def close(self, patience: float = LAST_CALL) -> None:
        """Tell what is new if that can be done soon, and end. What fires goes on until its time is up."""
        for each, allowed in ((Worker.finish, patience), (Worker.join, LAST_JOIN)):
            end = time.monotonic() + allowed
            for line in self._lines:
                each(line.worker, max(0.0, end - time.monotonic()))


class _Line:
    """One Alertmanager, and what it has heard."""

    def __init__(self, whom: Alertmanagers, address: Address, pace: Pace, clock: Callable[[], float]) -> None:
        self.sent = 0
        self.worker = Worker(f"alertmanager {address.url}", self._step, pace)
        self._whom = whom
        self._door = whom.door(address)
        self._clock = clock
        self._standing = NOTHING
        self._heard = NOTHING

    @property
    def waiting(self) -> bool:
        """Whether it has not heard how things stand."""
        return self._heard is not self._standing

    def tell(self, standing: _Standing) -> None:
        """Have it told."""
        self._standing = standing
        self.worker.wake()

    def _step(self) -> float | None:
        standing, whom = self._standing, self._whom
        alerts = alerts_of(standing.model, standing.episodes, self._clock(), whom.every, whom.wording)
        if alerts:
            self._door.ask("POST", ALERTS, json.dumps(alerts).encode())
            self.sent += 1
        self._heard = standing
        return whom.every if alerts else None


def version_of(door: Door) -> str:
    """What an Alertmanager says of itself, for a check. ReceiverError if it cannot be asked."""
    try:
        return str(json.loads(door.ask("GET", "/api/v2/status"))["versionInfo"]["version"])
    except (ValueError, TypeError, LookupError) as error:
        raise door.trouble("answers, but not as an Alertmanager does. See that the URL leads to one.") from error

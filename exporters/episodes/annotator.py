"""Episodes as annotations in Grafana: a region that opens when one fires and closes when it is over, once."""

from __future__ import annotations

import html
import re
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING

from agent.alert_report import Notified
from exporters.episodes import words
from exporters.episodes.grafana import GrafanaAnnotations, Region, safe, tag
from exporters.episodes.moments import dated
from exporters.episodes.receiver import Changes
from exporters.episodes.waiting import MOST, Told, Waiting
from exporters.episodes.worker import LAST_CALL, Pace, Worker

if TYPE_CHECKING:
    from agent.alert_report import Episode
    from agent.report import Report
    from exporters.episodes.grafana import GrafanaServer

ALL = "leadline"
KEY = "leadline-episode"
PLAIN = re.compile(r"[A-Za-z0-9_.=-]{1,100}")
# What ended less than this before the telling began (seconds) may be news that the last agent could not pass on.
LATELY = 300.0


class Annotator:
    """Tells a Grafana of episodes. Each is there once, as soon as Grafana can be told, also after a restart.

    Those that ended long before are only closed: what is no longer there, somebody has deleted. `tags` are put on
    every annotation. Beyond `most` waiting episodes the oldest are dropped.
    """

    def __init__(
        self, server: GrafanaServer, tags: tuple[str, ...] = (), pace: Pace | None = None, most: int = MOST
    ) -> None:
        self._tags = tags
        self._changes = Changes()
        self._waiting = Waiting(most)
        self._annotations = GrafanaAnnotations(server)
        self._sent = 0
        self._began: float | None = None
        self._worker = Worker("grafana", self._step, pace or Pace())

    def start(self) -> None:
        """Begin to tell."""
        self._worker.start()

    def tell(self, report: Report) -> None:
        """Have Grafana told of what is new about episodes; at first of all, of which it may know some."""
        if self._began is None:
            self._began = report.time
        changed = self._changes.of(report.alerts.episodes)
        for episode in changed:
            self._waiting.put(Told(report.info.model, episode))
        if changed:
            self._worker.wake()

    @property
    def notified(self) -> Notified:
        """How the telling goes."""
        return Notified(self._sent, self._worker.failed, self._waiting.dropped, len(self._waiting))

    def close(self, patience: float = LAST_CALL) -> None:
        """Tell what waits if that can be done soon, and end."""
        self._worker.finish(patience)
        self._worker.join()
        self._annotations.close()

    def _step(self) -> float | None:
        told = self._waiting.first()
        if told is None:
            return None
        try:
            region = region_of(told.model, told.episode, self._tags)
            written = self._annotations.have(region, old=self._old(told.episode))
        except BaseException:
            self._waiting.later(told)
            raise
        self._waiting.done(told)
        self._sent += written
        return 0.0 if len(self._waiting) else None

    def _old(self, episode: Episode) -> bool:
        return self._began is not None and episode.resolved < self._began - LATELY


def region_of(model: str, episode: Episode, tags: tuple[str, ...] = ()) -> Region:
    """How an episode looks in Grafana, which shows texts as HTML."""
    start = _milliseconds(episode.fired)
    end = None if episode.open else _milliseconds(episode.resolved)
    text = f"{words.summary(model, episode)}.\n{words.description(episode)}"
    key = episode.id if PLAIN.fullmatch(episode.id) else sha256(episode.id.encode("utf-8", "replace")).hexdigest()
    return Region(
        key=tag(KEY, key),
        start=start,
        end=end if start is None or end is None else max(start, end),
        tags=(ALL, tag("model", model), tag("slice", episode.slice), *map(_user_tag, tags)),
        text=html.escape(text).replace("\n", "<br>"),
        ending=html.escape(words.ending(episode)),
    )


def _user_tag(given: str) -> str:
    name, colon, value = given.partition(":")
    return tag(name, value) if colon else safe(given)


def _milliseconds(seconds: float) -> int | None:
    """None for no time: Grafana then takes its own."""
    return round(1000 * dated(seconds)) if isfinite(seconds) else None

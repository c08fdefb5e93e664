"""Episodes as Alertmanager wants them: its v2 API's alerts. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.alert_report import Outcome
from exporters.episodes import words
from exporters.episodes.moments import dated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.alert_report import Episode

NAME = "LeadlineAnnotate"
SEVERITY = "page"
# How long it is said of an alert that it is resolved (seconds), for Alertmanagers that were away.
TELL_RESOLVED = 300.0
# A firing alert ends by itself after so many rounds in which nobody said that it goes on.
ROUNDS = 4


class Wording(NamedTuple):
    """What every alert carries beside what it says of its episode."""

    labels: Mapping[str, str] = MappingProxyType({})
    runbook_url: str = ""


def alerts_of(
    model: str, episodes: Sequence[Episode], now: float, every: float, wording: Wording
) -> list[dict[str, Any]]:
    """The alerts to send now: those that fire, and those that were resolved a short while ago.

    The labels are an alert's identity. Of several episodes of one slice the one that is open is told, else the
    newest: an old end must not resolve a new beginning.
    """
    told: dict[str, tuple[bool, float, Episode]] = {}
    for episode in episodes:
        # Of one that moved to another replica nothing is said: that one may fire under the same labels.
        if episode.outcome is Outcome.MOVED or (not episode.open and now - episode.resolved > TELL_RESOLVED):
            continue
        rank = (episode.open, episode.fired if isfinite(episode.fired) else 0.0)
        slice_name = _label(episode.slice)
        if slice_name not in told or rank >= told[slice_name][:2]:
            told[slice_name] = (*rank, episode)
    return [_alert(model, name, told[name][2], (now, every), wording) for name in sorted(told)]


def _alert(
    model: str, slice_name: str, episode: Episode, when: tuple[float, float], wording: Wording
) -> dict[str, Any]:
    now, every = when
    began = episode.fired if isfinite(episode.fired) else now
    # Alertmanager refuses an end before the beginning, which a clock set back would give; and an end that is still
    # to come by our own clock would not resolve it.
    ends = now + ROUNDS * every if episode.open else max(min(episode.resolved, now), min(began, now))
    notes = {
        "summary": words.summary(model, episode),
        "description": " ".join(filter(None, (words.description(episode), words.ending(episode)))),
        "runbook_url": wording.runbook_url,
    }
    labels = {
        "severity": SEVERITY,
        **wording.labels,
        "alertname": NAME,
        "model": _label(model),
        "slice": slice_name,
    }
    return {
        "labels": labels,
        "annotations": {name: note for name, note in notes.items() if note},
        "startsAt": _moment(min(began, ends)),
        "endsAt": _moment(ends),
    }


def _label(value: str) -> str:
    """As on /metrics: a lone surrogate has no UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode()


def _moment(seconds: float) -> str:
    moment = datetime.fromtimestamp(dated(seconds), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

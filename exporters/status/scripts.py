"""The status for scripts: what the page shows, as JSON, in fractions and epoch seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from exporters.status.batches import download_of
from exporters.status.health import worries
from exporters.status.words import answer, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.alert_report import HistoryPoint
    from agent.report import Report
    from exporters.status.facts import SliceFacts, Status


def machine_readable(status: Status) -> bytes:
    """One object. What is not known is null."""
    return json.dumps(_facts(status), allow_nan=False).encode()


def _facts(status: Status) -> dict[str, Any]:
    report, told = status.report, answer(status)
    return {
        "time": _known(report.time),
        "state": told.mood,
        "headline": told.headline,
        "meaning": told.meaning,
        "todo": told.todo,
        "not_reading": status.trouble,
        "limit": _known(report.alerts.limit),
        "source_accuracy": _known(report.shape.accuracy),
        "slices": [_known(_slice(each, status.now)) for each in status.slices],
        "episodes": _known(report.alerts.episodes),
        "realised": _known(report.alerts.realised),
        "batches": [
            {**_known(each), "download": download_of(each.episode) or None} for each in report.alerts.batches
        ],
        "agent": _known(_agent(report)),
    }


def _slice(each: SliceFacts, now: float) -> dict[str, Any]:
    return {
        "slice": each.name,
        "state": each.state,
        "sentence": sentence(each, now),
        "drop": each.drop,
        "level": each.made.estimate.level if each.made is not None else None,
        "no_estimate": each.reason,
        "inside_domains": each.inside,
        "outside": each.outside,
        "shift": each.decision,
        "since": each.since,
        "needed": each.needed,
        "windows": each.windows,
        "history": _columns(each.history),
    }


def _columns(history: Sequence[HistoryPoint]) -> dict[str, list[float]]:
    """The estimates column by column, oldest first: a fraction of the size of one object each."""
    return {
        "end": [point.end for point in history],
        "estimate": [point.drop.estimate for point in history],
        "low": [point.drop.low for point in history],
        "high": [point.drop.high for point in history],
        "inside_domains": [point.inside_domains for point in history],
    }


def _agent(report: Report) -> dict[str, Any]:
    estimation, lag = report.estimation, report.source.lag
    return {
        "version": report.version,
        **_known(report.info),
        "ready": report.ready,
        "heartbeat": report.heartbeat,
        "worries": worries(report),
        "counts": report.counts,
        "source": {
            **_known(report.source),
            "lag": {f"{topic}/{partition}": records for (topic, partition), records in lag.items()},
        },
        "upkeep": report.upkeep,
        "estimates": {
            "failures": estimation.failures,
            "missed": estimation.missed,
            "running_since": estimation.running_since,
            "last_success": estimation.last_success,
        },
        "notified": report.notified,
    }


def _known(value: Any) -> Any:  # noqa: ANN401 - any piece of a Report becomes any piece of JSON
    """In types that JSON has: NaN and infinity are null."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _known(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    if is_dataclass(value):
        return {each.name: _known(getattr(value, each.name)) for each in fields(value)}
    return value

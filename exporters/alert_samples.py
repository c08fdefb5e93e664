"""What the metrics of decisions, labels and notifications read from a Report. Pure.

A slice may have had several annotation batches. Only one is told, or an old verdict would pass for that of a
change nobody has labelled yet: the open episode's, or else the newest episode's, or else the newest drawn by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.alert_report import Kind
from exporters.samples import of_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.alert_report import Episode, Realised, SliceDecision
    from agent.interval import Interval
    from agent.report import Report
    from exporters.samples import Scalars

NEVER = (False, False, float("-inf"))


def per_slice(read: Callable[[SliceDecision], float]) -> Callable[[Report], Scalars]:
    """One series for each (model, slice) of which something is decided."""

    def samples(report: Report) -> Scalars:
        return {(report.info.model, one.slice): read(one) for one in report.alerts.slices}

    return samples


def per_open_episode(read: Callable[[Episode], float]) -> Callable[[Report], Scalars]:
    """One series for each (model, slice) with an open episode."""

    def samples(report: Report) -> Scalars:
        return {(report.info.model, one.slice): read(one) for one in report.alerts.open}

    return samples


def per_realised(read: Callable[[Realised], float]) -> Callable[[Report], Scalars]:
    """One series for each (model, slice) whose newest batch has labels."""

    def samples(report: Report) -> Scalars:
        return {(report.info.model, one.slice): read(one) for one in _realised(report)}

    return samples


def realised_bounds(read: Callable[[Realised], Interval]) -> Callable[[Report], Scalars]:
    """By (model, slice, bound), of the newest batch of each slice."""

    def samples(report: Report) -> Scalars:
        return {
            (report.info.model, one.slice, bound): value
            for one in _realised(report)
            for bound, value in of_interval(read(one)).items()
        }

    return samples


def reasons(report: Report) -> Scalars:
    """By (model, slice, reason), 1 for that of the open episode; 0 is told too, so that the change is seen."""
    kinds = {one.slice: one.kind for one in report.alerts.open}
    return {
        (report.info.model, one.slice, kind.value): kinds.get(one.slice) is kind
        for one in report.alerts.slices
        for kind in Kind
    }


def labels_returned(report: Report) -> Scalars:
    """By (model, slice), of the newest batch of each slice: 0 while none has come back."""
    labelled = {one.slice: one.labelled for one in _realised(report)}
    return {(report.info.model, name): labelled.get(name, 0) for name in _newest(report)}


def batches_written(report: Report) -> Scalars:
    """By (model, slice), when the newest batch of each slice was written."""
    newest = _newest(report)
    return {
        (report.info.model, one.slice): one.written
        for one in report.alerts.batches
        if newest[one.slice] == one.episode
    }


def notifications(report: Report) -> Scalars:
    """By (receiver, outcome)."""
    return {
        (receiver, outcome): count
        for receiver, told in report.notified.items()
        for outcome, count in (("sent", told.sent), ("failed", told.failed), ("dropped", told.dropped))
    }


def _realised(report: Report) -> list[Realised]:
    newest = _newest(report)
    return [one for one in report.alerts.realised if newest[one.slice] == one.episode]


def _newest(report: Report) -> dict[str, str]:
    """Of each slice with a batch, the episode whose batch is told; one drawn by hand is of no known episode."""
    alerts = report.alerts
    asked = {one.episode: (False, False, one.written) for one in alerts.batches}
    asked |= {one.id: (one.open, True, one.fired) for one in alerts.episodes}
    batches = [(one.slice, one.episode) for one in alerts.realised]
    batches += [(one.slice, one.episode) for one in alerts.batches]
    return dict(sorted(batches, key=lambda batch: asked.get(batch[1], NEVER)))

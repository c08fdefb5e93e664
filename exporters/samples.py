"""What a metric reads from a Report: pure functions from the snapshot to values keyed by label values.

A mapping, so that no series can be stated twice. What is not known is NaN here and absent from a scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent.report import DropEstimate, Histogram, Report, WindowReport

if TYPE_CHECKING:
    from agent.interval import Interval

Labels = tuple[str, ...]
Scalars = Mapping[Labels, float]
Distributions = Mapping[Labels, Histogram]

NO_LABELS: Labels = ()
INFINITY = float("inf")
# Each of them is always told, so that an alert sees the 0 before the 1.
STOPS = ("schema_change", "out_of_range")


def by_name(values: Mapping[str, float]) -> Scalars:
    """One series a name.

    >>> by_name({"late": 2})
    {('late',): 2}
    """
    return {(name,): value for name, value in values.items()}


def consumer_lag(report: Report) -> Scalars:
    """By (topic, partition)."""
    return {(topic, partition): records for (topic, partition), records in report.source.lag.items()}


def source_stops(report: Report) -> Scalars:
    """By reason, 1 for the one that reading has stopped for."""
    return {
        (reason,): reason == report.source.stopped
        for reason in dict.fromkeys((*STOPS, report.source.stopped))
        if reason
    }


def per_window(read: Callable[[WindowReport], float]) -> Callable[[Report], Scalars]:
    """One series for each (model, slice, window), read from that window."""

    def samples(report: Report) -> Scalars:
        return {(report.info.model, one.slice, one.window): read(one) for one in report.windows}

    return samples


def per_estimate(read: Callable[[DropEstimate], float]) -> Callable[[Report], Scalars]:
    """One series for each (model, slice, window) that was estimated, read from its estimate."""

    def samples(report: Report) -> Scalars:
        return {
            (report.info.model, one.slice, one.window): read(one.estimate) for one in report.estimation.estimates
        }

    return samples


def shift_metrics(report: Report) -> Scalars:
    """By (model, slice, window, metric), without the OOD ratios, which have a metric of their own."""
    return {
        (report.info.model, one.slice, one.window, name): value
        for one in report.estimation.estimates
        for name, value in one.estimate.metrics.items()
        if not name.startswith("ood_")
    }


def drops(report: Report) -> Scalars:
    """By (model, slice, window, bound); nothing for a window of which nothing can be said."""
    return {
        (report.info.model, one.slice, one.window, bound): value
        for one in report.estimation.estimates
        if not one.estimate.reason
        for bound, value in of_interval(one.estimate.drop).items()
    }


def of_interval(interval: Interval) -> Mapping[str, float]:
    """A number and its bounds, by the label `bound`."""
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def last_estimates(report: Report) -> Scalars:
    """By (model, slice)."""
    return {(report.info.model, name): time for name, time in report.estimation.last_success.items()}


def ood_ratios(report: Report) -> Scalars:
    """By (model, slice, detector, window)."""
    return {
        (report.info.model, one.slice, detector, one.window): ratio
        for one in report.windows
        for detector, ratio in one.ood_ratio.items()
    }


def class_ratios(report: Report) -> Scalars:
    """By (model, slice, window, class); nothing for a window with too few items to give a ratio.

    Of all predictions: one an item, or of a sequence labeller one a token.
    """
    return {
        (report.info.model, one.slice, one.window, name): count / predictions
        for one in report.windows
        if one.enough and (predictions := sum(one.classes.values()))
        for name, count in one.classes.items()
    }


def item_p_values(report: Report) -> Distributions:
    """By (model, slice, detector). No p-value exceeds 1, so an empty bucket above 1 keeps that bound exact."""
    return {
        (report.info.model, name, detector): Histogram((*each.edges, INFINITY), (*each.counts, 0), each.total)
        for (name, detector), each in report.item_p_values.items()
    }

"""The Report as Prometheus metric families, rendered at scrape time. The only module that builds them."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.utils import floatToGoString

from exporters.metric import Scalar
from exporters.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric as Family

    from agent.report import Histogram, Report
    from exporters.metric import Distribution
    from exporters.samples import Labels


class ReportCollector:
    """Renders METRICS from one snapshot a scrape; keeps nothing, so what left the Report leaves /metrics."""

    def __init__(self, latest: Callable[[], Report]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Family]:
        """One family for each row of METRICS, in its order, without NaN."""
        report = self._latest()
        for metric in METRICS:
            yield _scalars(metric, report) if isinstance(metric, Scalar) else _histograms(metric, report)


def registry_of(latest: Callable[[], Report]) -> CollectorRegistry:
    """A registry of its own, with nothing but the Report in it."""
    registry = CollectorRegistry()
    registry.register(ReportCollector(latest))
    return registry


def _scalars(metric: Scalar, report: Report) -> Family:
    read = metric.read(report)
    known = {_printable(labels): value for labels, value in read.items() if not math.isnan(value)}
    if metric.kind == "info":
        return _info(metric, known)
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in known.items():
        family.add_metric(labels, value)
    return family


def _info(metric: Scalar, known: Iterable[Labels]) -> Family:
    family = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
    for labels in known:
        family.add_metric((), dict(zip(metric.labels, labels, strict=True)))
    return family


def _histograms(metric: Distribution, report: Report) -> Family:
    read = metric.read(report)
    known = {_printable(labels): each for labels, each in read.items() if not math.isnan(each.total)}
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, histogram in known.items():
        family.add_metric(labels, _buckets(histogram), histogram.total)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound."""
    return list(zip(_bounds(histogram.edges), accumulate(histogram.counts), strict=True))


@lru_cache(maxsize=32)
def _bounds(edges: tuple[float, ...]) -> tuple[str, ...]:
    """The `le` of each bucket. A Report's last bucket also takes what lies above its edge, so it is +Inf."""
    return (*map(floatToGoString, edges[:-1]), "+Inf")


def _printable(labels: Labels) -> Labels:
    r"""Label values that have a UTF-8 form, still telling apart what was different.

    JSON can carry a lone surrogate, which has none: one record's slice would cost every scrape. Quotes,
    backslashes and newlines are escaped by the client library.

    >>> _printable(("tenant", "\ud800"))
    ('tenant', '\\ud800')
    """
    return tuple(label.encode("utf-8", "backslashreplace").decode() for label in labels)

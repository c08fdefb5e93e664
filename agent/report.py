"""The Report: everything the agent says about itself at one moment, frozen. Exporters know nothing else."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ModelInfo:
    """Which reference the agent holds its model against."""

    model: str
    reference_id: str
    encoder: str
    provider: str


@dataclass(frozen=True)
class Counts:
    """Records since the start. At every moment received = processed + discarded + in flight."""

    received: Mapping[str, int] = field(default_factory=_nothing)
    processed: int = 0
    discarded: Mapping[str, int] = field(default_factory=_nothing)
    in_flight: int = 0
    truncated: int = 0

    @property
    def balanced(self) -> bool:
        """Whether no record was lost or counted twice."""
        settled = self.processed + sum(self.discarded.values()) + self.in_flight
        return sum(self.received.values()) == settled


@dataclass(frozen=True)
class Histogram:
    """Counts by upper bound, not cumulative; the last bucket also takes what lies above it. `total` is the sum."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    total: float = 0.0

    @classmethod
    def empty(cls, edges: tuple[float, ...]) -> Histogram:
        """No observations yet."""
        return cls(edges, (0,) * len(edges))

    def observe(self, value: float) -> Histogram:
        """This histogram with one more observation."""
        place = min(bisect_left(self.edges, value), len(self.edges) - 1)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return Histogram(self.edges, counts, self.total + value)


@dataclass(frozen=True)
class WindowReport:
    """One slice's window: merged panes ending at `end` (epoch seconds). Ratios are fractions.

    `enough` is False below the configured number of items; then every ratio and mean is NaN.
    """

    slice: str
    window: str
    start: float
    end: float
    items: int
    enough: bool
    ood_ratio: Mapping[str, float]
    depth_mean: float
    q: float
    confidence_mean: float
    classes: Mapping[str, int]


@dataclass(frozen=True)
class Report:
    """One consistent snapshot.

    `item_p_values` is keyed by (slice, detector); `windows` holds the newest short and long window of each
    slice; `heartbeat` is when the loop last moved, `last_checkpoint` when state last became durable (epoch
    seconds, NaN for never).
    """

    time: float
    version: str
    info: ModelInfo
    counts: Counts
    heartbeat: float
    ready: bool
    last_checkpoint: float
    windows: tuple[WindowReport, ...]
    item_p_values: Mapping[tuple[str, str], Histogram]
    encode_seconds: Histogram
    score_seconds: Histogram
    batch_records: Histogram

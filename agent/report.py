"""The Report: everything the agent says about itself at one moment, frozen. Exporters know nothing else."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.alert_report import Alerts
from agent.interval import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.alert_report import Notified
    from agent.interval import Interval

# Upper bounds for how long one window's estimate takes.
ESTIMATE_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, float("inf"))


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
    """Records since the start. At every moment received = processed + discarded + dead-lettered + in flight.

    A request and its response are one record; while one of them waits for the other, it is in flight. `unpaired`
    counts halves whose other half never came, `labels` labels that arrived alone: neither is in the balance.
    """

    received: Mapping[str, int] = field(default_factory=_nothing)
    processed: int = 0
    discarded: Mapping[str, int] = field(default_factory=_nothing)
    dead_lettered: Mapping[str, int] = field(default_factory=_nothing)
    in_flight: int = 0
    truncated: int = 0
    unpaired: Mapping[str, int] = field(default_factory=_nothing)
    labels: int = 0

    @property
    def balanced(self) -> bool:
        """Whether no record was lost or counted twice."""
        given_up = sum(self.discarded.values()) + sum(self.dead_lettered.values())
        return sum(self.received.values()) == self.processed + given_up + self.in_flight


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

    `enough` is False below the configured number of items; then every ratio and mean is NaN. `depth_counts` are
    items by the buckets of `SourceShape.depth_edges`, empty where not enough.
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
    depth_counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class SourceShape:
    """What the source looks like: its items by depth, with upper bounds, and the accuracy on its test rows.

    A depth lies in the bucket of the lowest bound not below it. Empty and NaN where it is not known.
    """

    depth_edges: tuple[float, ...] = ()
    depth_counts: tuple[int, ...] = ()
    accuracy: float = float("nan")


@dataclass(frozen=True)
class DropEstimate:
    """What is said, without labels, of how much accuracy is lost on n items.

    `reason` says why there is no estimate and is empty where there is one; then `drop` and `accuracy` are numbers.
    `level` is the share of such intervals that hold the truth. `methods` maps each method to the value of its
    metric and the drop it gives alone; `metrics` each shift metric to its value. `inside_domains` is whether the
    metrics lie within what the reference domains showed; `outside` names those that do not. With a reason and
    nothing more it is a refusal.
    """

    n: int
    level: float
    reason: str
    drop: Interval = UNKNOWN
    accuracy: Interval = UNKNOWN
    methods: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    inside_domains: bool = False
    outside: tuple[str, ...] = ()


@dataclass(frozen=True)
class WindowEstimate:
    """The estimate of one slice's window that ends at `end`, made at `time` (epoch seconds)."""

    slice: str
    window: str
    end: float
    time: float
    estimate: DropEstimate


@dataclass(frozen=True)
class Estimation:
    """The newest estimate of each slice's windows, and how the making of them goes.

    `failures` counts estimates that broke, by bounded reason; a window whose estimate broke has none here.
    `missed` counts times at which estimates were due and earlier ones were still being made; `seconds` is how
    long one window takes. `running_since` is when the one now being made was begun, `last_success` when a slice
    last had one, with a number or with a reason (epoch seconds, NaN for none).
    """

    estimates: tuple[WindowEstimate, ...] = ()
    failures: Mapping[str, int] = field(default_factory=_nothing)
    missed: int = 0
    seconds: Histogram = field(default_factory=lambda: Histogram.empty(ESTIMATE_SECONDS))
    running_since: float = float("nan")
    last_success: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def with_estimate(self, key: tuple[str, str], estimate: WindowEstimate | None) -> Estimation:
        """This snapshot with another estimate, or none, for the window `key` names: (slice, window)."""
        others = [each for each in self.estimates if (each.slice, each.window) != key]
        told = others if estimate is None else [*others, estimate]
        return replace(self, estimates=tuple(sorted(told, key=lambda each: (each.slice, each.window))))


@dataclass(frozen=True)
class SourceStatus:
    """How the source of records is doing.

    `assigned` is whether it has anything to read from; `stopped` why it reads no more until someone steps in, as a
    bounded word, empty while it reads; `stuck` that it should be reading and is not, which only a restart mends.
    `lag` is the records not yet read, by (topic, partition). `events` counts what happened to the source itself,
    `responses` what an HTTP intake answered by status, `forwarded` what became of events to pass on. `queue_bytes`
    are read and not yet decoded.
    """

    assigned: bool = True
    stopped: str = ""
    stuck: bool = False
    lag: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    events: Mapping[str, int] = field(default_factory=_nothing)
    responses: Mapping[str, int] = field(default_factory=_nothing)
    forwarded: Mapping[str, int] = field(default_factory=_nothing)
    queue_bytes: int = 0
    paused: bool = False


@dataclass(frozen=True)
class Upkeep:
    """How the agent's own state and configuration are doing.

    `last_checkpoint` is when state last became durable, `checkpoint_failures` how often it could not;
    `quarantined` counts states that could not be used and were put aside, by reason; `reload_ok` is whether the
    newest configuration is the one in use, `reloaded` when it was taken up (epoch seconds, NaN for never).
    """

    last_checkpoint: float = float("nan")
    checkpoint_failures: int = 0
    quarantined: Mapping[str, int] = field(default_factory=_nothing)
    reload_ok: bool = True
    reloaded: float = float("nan")


@dataclass(frozen=True)
class Report:
    """One consistent snapshot.

    `item_p_values` is keyed by (slice, detector); `windows` holds the newest short and long window of each
    slice; `heartbeat` is when the loop last moved (epoch seconds); `notified`
    how the telling of each receiver of episodes goes; `shape` what the windows are held against.
    """

    time: float
    version: str
    info: ModelInfo
    counts: Counts
    heartbeat: float
    ready: bool
    windows: tuple[WindowReport, ...]
    item_p_values: Mapping[tuple[str, str], Histogram]
    encode_seconds: Histogram
    score_seconds: Histogram
    batch_records: Histogram
    estimation: Estimation = field(default_factory=Estimation)
    source: SourceStatus = field(default_factory=SourceStatus)
    upkeep: Upkeep = field(default_factory=Upkeep)
    alerts: Alerts = field(default_factory=Alerts)
    notified: Mapping[str, Notified] = field(default_factory=lambda: MappingProxyType({}))
    shape: SourceShape = SourceShape()

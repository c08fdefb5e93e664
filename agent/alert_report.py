"""What the agent has decided, frozen: shift that was seen, episodes, labels asked for and what came back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan, sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from agent.interval import UNKNOWN, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

NEVER = float("nan")
# What labels say of a drop held against a limit.
Answer = Literal["harmful", "harmless", "open"]


class Kind(StrEnum):
    """Why an episode asks for labels."""

    DROP = "drop"
    """The lower bound of the estimated drop is above `max_drop`."""
    UNKNOWN = "unknown"
    """The shift is certain and nobody can tell what it costs: it lies outside what the labelled reference domains
    showed, or the estimate is above `max_drop` and its interval too wide to say more."""


class Outcome(StrEnum):
    """How an episode ended."""

    OPEN = "open"
    RECOVERED = "recovered"
    """In both windows the estimated drop is no longer above `max_drop`, and within what the domains showed."""
    RETURNED = "returned"
    """The traffic is like the source again."""
    SILENT = "silent"
    """The slice has had no traffic for as long as the long window."""
    HARMLESS = "harmless"
    """Labels came back and say that the drop is not above `max_drop`."""
    SUPERSEDED = "superseded"
    """The agent was started with another reference or source, or other panes or slices."""
    MOVED = "moved"
    """Another replica reads its records now, and decides on them."""


@dataclass(frozen=True)
class Episode:
    """One alert, from firing to resolved.

    `id` is the same whenever the same change is decided again, as after a crash. `since` is when the change
    began, in event time; `fired` and `resolved` are when that was decided, by the clock (epoch seconds; NaN while
    open). `drop` is the estimate of the long window on which it fired, or by which it became certain; `items` how
    many items it was made on; `outside` names the shift metrics beyond what the reference domains showed.
    `needed` labels give the accuracy an interval of the half width asked for.
    """

    id: str
    slice: str
    kind: Kind
    since: float
    fired: float
    drop: Interval
    items: int
    needed: int
    outside: tuple[str, ...] = ()
    resolved: float = NEVER
    outcome: Outcome = Outcome.OPEN

    @property
    def open(self) -> bool:
        """Whether it still asks for labels."""
        return isnan(self.resolved)


@dataclass(frozen=True)
class SliceDecision:
    """What is decided of one slice.

    `evidence` is the log10 of the e-value against "nothing has changed", `threshold` what it must reach for a
    shift to be seen; `since` when the shift that is seen began, in event time (epoch seconds, NaN while none is).
    `annotate` is whether an episode is open, `needed` the labels it asks for (0 where none is).
    """

    slice: str
    evidence: float
    threshold: float
    shift_seen: bool
    since: float = NEVER
    annotate: bool = False
    needed: int = 0


@dataclass(frozen=True)
class Realised:
    """What the labels of one annotation batch say: `labelled` of `asked` items have come back.

    `drop` is the accuracy lost by the labels alone, `combined` by labels and predictions together
    (prediction-powered), each with its interval; `estimated` what had been estimated without labels of
    the same items when they were drawn. All NaN where nothing can be said yet.
    """

    slice: str
    episode: str
    asked: int
    labelled: int
    drop: Interval = UNKNOWN
    combined: Interval = UNKNOWN
    estimated: Interval = UNKNOWN

    @property
    def judged(self) -> Interval:
        """What labels and predictions together say, to be held against a limit after every label.

        While only k of n labels are back the interval is taken wider, by sqrt(n / k) (O'Brien and Fleming 1979):
        the chance to be wrong at any look is then at most twice that of one look at the end.
        """
        drop, wider = self.combined, sqrt(max(self.asked / max(self.labelled, 1), 1.0))
        low, high = (drop.estimate + wider * (bound - drop.estimate) for bound in (drop.low, drop.high))
        return Interval(drop.estimate, low, high)

    def answer(self, limit: float) -> Answer:
        """Whether more than this is lost ("harmful"), or not ("harmless"); "open" while labels do not tell."""
        if not self.labelled or isnan(self.judged.estimate):
            return "open"
        if self.judged.low > limit:
            return "harmful"
        return "harmless" if self.judged.high <= limit else "open"

    @property
    def error(self) -> float:
        """How far the label-free estimate was off: realised less estimated, as a fraction."""
        return self.drop.estimate - self.estimated.estimate


@dataclass(frozen=True)
class HistoryPoint:
    """The drop estimated for the long window that ended at `end` (epoch seconds)."""

    end: float
    drop: Interval
    inside_domains: bool


@dataclass(frozen=True)
class BatchFacts:
    """An annotation batch in the directory `path`: so many `items`, `written` then (epoch seconds).

    `texts` is whether their texts were kept; `kind` that of the episode, or "asked" where a person had it drawn.
    """

    episode: str
    slice: str
    path: str
    items: int
    texts: bool
    written: float
    kind: str = Kind.DROP


@dataclass(frozen=True)
class Notified:
    """How the telling of one receiver of episodes goes: Grafana, or an Alertmanager.

    Counted since the start: messages `sent`, tries that `failed` (each is tried again), and messages `dropped`
    because too many waited. `waiting` are not yet sent.
    """

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class Asked:
    """What was asked of people, and what came back: the batches on disk, and what their labels say.

    `failures` counts annotation batches that could not be written; each is tried again.
    """

    batches: tuple[BatchFacts, ...] = ()
    realised: tuple[Realised, ...] = ()
    failures: int = 0


@dataclass(frozen=True)
class Alerts:
    """Everything decided by this moment.

    `limit` is `max_drop`; NaN where the agent decides nothing. `episodes` holds the open ones and the newest of
    those that are over, by when they fired; `history` the newest estimates of each slice, oldest first;
    `batch_failures` counts annotation batches that could not be written,
    `texts_lost` texts that were not kept because the redaction broke on them.
    """

    limit: float = NEVER
    slices: tuple[SliceDecision, ...] = ()
    episodes: tuple[Episode, ...] = ()
    realised: tuple[Realised, ...] = ()
    batches: tuple[BatchFacts, ...] = ()
    batch_failures: int = 0
    texts_lost: int = 0
    history: Mapping[str, tuple[HistoryPoint, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def open(self) -> tuple[Episode, ...]:
        """The episodes that still ask for labels."""
        return tuple(episode for episode in self.episodes if episode.open)

"""What a Report says of each slice, brought together and put in order: the worst first. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, TypeVar

from agent.alert_report import BatchFacts, Kind, Outcome, Realised
from agent.interval import UNKNOWN
from exporters.probes import death, hindrance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.alert_report import Answer, Episode, HistoryPoint, SliceDecision
    from agent.interval import Interval
    from agent.report import Report, WindowEstimate, WindowReport

T = TypeVar("T", Realised, BatchFacts)


class State(StrEnum):
    """How a slice is doing, the worst first."""

    LOST = "lost"
    """Labels say that too much accuracy is lost, or an episode is open: probably."""
    CANNOT_TELL = "cannot_tell"
    """An episode is open: the shift is certain, and nobody can tell what it costs."""
    SUSPECTED = "suspected"
    """The lower bound is above the limit, and no episode is open."""
    SHIFT = "shift"
    """The shift is certain; it asks for no labels, or they have said that it may stay."""
    NO_ESTIMATE = "no_estimate"
    """Nothing is known of its accuracy."""
    FINE = "fine"


BY_SEVERITY = tuple(State)


@dataclass(frozen=True)
class SliceFacts:
    """All there is about one slice, with the model's `limit` (NaN where none is set).

    `newest` is the end of the newest window of any slice (event time, NaN where none has ended).
    `made` is the estimate of the long window, or else of the short one; `episode` the open one, `over` the newest
    that is over; `realised` and `batch` are of the open episode, or else of the newest.
    """

    name: str
    limit: float
    newest: float
    windows: Mapping[str, WindowReport]
    made: WindowEstimate | None
    decision: SliceDecision | None
    episode: Episode | None
    over: Episode | None
    realised: Realised | None
    batch: BatchFacts | None
    history: tuple[HistoryPoint, ...]

    @property
    def state(self) -> State:
        """How it is doing: what labels say goes before what is estimated."""
        if self.answer == "harmful":
            return State.LOST
        if self.answer == "harmless":
            return State.SHIFT
        if self.episode is not None:
            return State.LOST if self.episode.kind == Kind.DROP else State.CANNOT_TELL
        # Without a limit, any drop that chance does not explain.
        if self.drop.low > (0.0 if isnan(self.limit) else self.limit):
            return State.SHIFT if self.shift_seen and not self.inside else State.SUSPECTED
        if self.shift_seen:
            return State.SHIFT
        return State.NO_ESTIMATE if isnan(self.drop.estimate) else State.FINE

    @property
    def window(self) -> WindowReport | None:
        """The long window, or else the short one."""
        return self.windows.get("long") or self.windows.get("short")

    @property
    def drop(self) -> Interval:
        """What is estimated now; where that is nothing, what was when the open episode fired."""
        if self.made is not None and not self.made.estimate.reason:
            return self.made.estimate.drop
        return UNKNOWN if self.episode is None else self.episode.drop

    @property
    def reason(self) -> str:
        """Why there is no estimate now; empty where there is one."""
        return "no window of it was estimated yet" if self.made is None else self.made.estimate.reason

    @property
    def inside(self) -> bool:
        """Whether there is an estimate now, within what the labelled domains showed."""
        return self.made is not None and not self.made.estimate.reason and self.made.estimate.inside_domains

    @property
    def outside(self) -> tuple[str, ...]:
        """The shift metrics beyond what the labelled domains showed."""
        if self.made is not None and not self.made.estimate.reason:
            return self.made.estimate.outside
        return () if self.episode is None else self.episode.outside

    @property
    def shift_seen(self) -> bool:
        """Whether it is certain that something has changed."""
        return self.decision is not None and self.decision.shift_seen

    @property
    def labels(self) -> Realised | None:
        """What labels say of the change that is seen now: it is asked about, or was until they said enough."""
        ended = self.over is not None and self.over.outcome == Outcome.HARMLESS and self.shift_seen
        return self.realised if self.episode is not None or ended else None

    @property
    def answer(self) -> Answer:
        """Whether those labels say that more than the limit of today is lost."""
        return "open" if self.labels is None else self.labels.answer(self.limit)

    @property
    def since(self) -> float:
        """When the change began (event time); NaN where none is seen."""
        if self.episode is not None:
            return self.episode.since
        return self.decision.since if self.decision is not None and self.shift_seen else float("nan")

    @property
    def needed(self) -> int:
        """How many labels are asked for; 0 where none is."""
        return 0 if self.episode is None else self.episode.needed


@dataclass(frozen=True)
class Status:
    """A Report as the page tells it: the slices, the worst first; `trouble` says why nothing new is learnt now."""

    report: Report
    slices: tuple[SliceFacts, ...]
    trouble: str

    @property
    def now(self) -> float:
        """The moment it tells of (epoch seconds)."""
        return self.report.time

    @property
    def limit(self) -> float:
        """The accuracy that may be lost; NaN where no limit is set."""
        return self.report.alerts.limit

    def of(self, *states: State) -> tuple[SliceFacts, ...]:
        """The slices in these states."""
        return tuple(each for each in self.slices if each.state in states)

    def named(self, name: str | None) -> SliceFacts | None:
        """The slice of this name, as a person could type it; the worst where there is none."""
        found = [each for each in self.slices if plain(each.name) == name]
        return next(iter((*found, *self.slices)), None)


def status_of(report: Report, now: float, stale_after: float) -> Status:
    """Everything in order. `now` is the time it is asked for, `stale_after` how long the loop may stand still."""
    names = {window.slice for window in report.windows} | {each.slice for each in report.alerts.slices}
    names |= {made.slice for made in report.estimation.estimates} | {each.slice for each in report.alerts.open}
    slices = sorted((_slice(report, name) for name in names), key=_rank)
    return Status(report, tuple(slices), death(report, now, stale_after) or hindrance(report))


def _slice(report: Report, name: str) -> SliceFacts:
    alerts = report.alerts
    made = {each.window: each for each in report.estimation.estimates if each.slice == name}
    episodes = sorted((each for each in alerts.episodes if each.slice == name), key=lambda each: each.fired)
    episode = next((each for each in reversed(episodes) if each.open), None)
    over = next((each for each in reversed(episodes) if not each.open), None)
    told = episode or over
    return SliceFacts(
        name=name,
        limit=alerts.limit,
        newest=max((each.end for each in report.windows), default=float("nan")),
        windows={each.window: each for each in report.windows if each.slice == name},
        made=made.get("long") or made.get("short"),
        decision=next((each for each in alerts.slices if each.slice == name), None),
        episode=episode,
        over=over,
        realised=_of_episode(alerts.realised, told),
        batch=_of_episode(alerts.batches, told),
        history=alerts.history.get(name, ()),
    )


def _of_episode(told: Iterable[T], episode: Episode | None) -> T | None:
    return next((each for each in told if episode is not None and each.episode == episode.id), None)


def _rank(facts: SliceFacts) -> tuple[int, float, str]:
    drop = facts.drop.estimate
    return BY_SEVERITY.index(facts.state), -drop if isfinite(drop) else inf, facts.name


def plain(name: str) -> str:
    r"""A name of anybody's choosing as one line that shows what is in it.

    What moves the cursor, turns the direction of writing or has no UTF-8 form is spelled out.

    >>> plain("tenant a"), plain("two\nlines"), plain("\ud800 \u202e größe")
    ('tenant a', 'two\\nlines', '\\ud800 \\u202e größe')
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in name)

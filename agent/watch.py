"""What is known of a slice that is watched for a shift, and the rules it is held against: immutable, all of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.panes import P_EDGES
from detectors.evidence import Evidence, flagged_at, log_threshold, most_kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.alert_report import Episode
    from agent.panes import Pane
    from agent.report import DropEstimate
    from detectors.evidence import Bets

MONTH = 30 * 86_400


@dataclass(frozen=True)
class Rules:
    """When to decide what. `pane`, `short` and `long` are seconds, `false_alarms` a month over all slices."""

    max_drop: float
    false_alarms: float
    precision: float
    pane: float
    short: float
    long: float

    def threshold(self, slices: int) -> float:
        """The log e-value at which a shift is seen, where so many slices share the budget."""
        return log_threshold(MONTH / self.pane, slices, self.false_alarms)


@dataclass(frozen=True)
class Acquittal:
    """Labels said that no more than `limit` is lost.

    Drops estimated up to `bound` are not asked about again while the shift lasts; where the slice fell silent with
    it, `until` then.
    """

    limit: float
    bound: float
    until: float


@dataclass(frozen=True)
class Watch:
    """One slice. Times are event time, epoch seconds.

    `end` is the end of its newest sealed pane. `began` is when the shift that is seen began, None while none is;
    `asked` counts the episodes of that shift, `calm` is since when its estimates have been well again. One that is
    `silent` has no traffic: it is remembered for what labels said of it, and told to nobody.
    """

    evidence: Evidence
    end: int
    began: int | None = None
    asked: int = 0
    calm: int | None = None
    acquittal: Acquittal | None = None
    silent: bool = False

    @property
    def seen(self) -> bool:
        """Whether a shift is seen."""
        return self.began is not None

    def after(self, pane: Pane, bets: Bets, threshold: float, length: int) -> Watch:
        """What is known once this pane, `length` seconds long, was sealed.

        A shift is seen from the threshold on, until the evidence has fallen below its square root. When it began
        is said once: later evidence may date it a little otherwise, and it is the same shift.
        """
        flagged = flagged_at(pane.tally.p_counts, P_EDGES)
        evidence = self.evidence.after(bets, flagged, pane.tally.items, pane.start, most_kept(threshold, bets))
        end, acquittal = pane.start + length, self.acquittal
        if acquittal is not None and self._outlived(acquittal, pane.start, over=evidence.log < threshold / 2):
            acquittal = None
        if evidence.log < (threshold / 2 if self.seen else threshold):
            return Watch(evidence, end, acquittal=acquittal)
        began = evidence.began if self.began is None else self.began
        return replace(self, evidence=evidence, end=end, began=began, acquittal=acquittal, silent=False)

    def _outlived(self, acquittal: Acquittal, start: int, *, over: bool) -> bool:
        """Whether what labels said no longer counts: its shift is `over`, or has not come back for so long."""
        return over if self.seen else start > acquittal.until

    def fallen_silent(self, bets: Bets) -> Watch | None:
        """What is worth knowing of a slice without traffic: what labels said of it, if anything."""
        if self.acquittal is None:
            return None
        kept = replace(self.acquittal, until=self.end + MONTH)
        return Watch(Evidence.none(bets), self.end, acquittal=kept, silent=True)

    def fitting(self, bets: Bets, threshold: float) -> Watch:
        """The same with evidence in the shape of these bets; another version's is worth what it must be."""
        if self.evidence.logs.shape == bets.flagged.shape:
            return self
        none = Evidence.none(bets)
        return replace(self, evidence=none if self.began is None else none.raised(threshold, self.began))

    def covers(self, estimate: DropEstimate, limit: float) -> bool:
        """Whether labels have said that a drop like this is within the limit; never of one clearly larger."""
        known = self.acquittal
        return known is not None and limit >= known.limit and not estimate.drop.low > known.bound

    def acquitted(self, episode: Episode, limit: float) -> Watch:
        """The slice once labels said that what this episode asked about does not hurt."""
        bound = episode.drop.high if isfinite(episode.drop.high) else limit
        return replace(self, acquittal=Acquittal(limit, bound, self.end + MONTH))


@dataclass(frozen=True)
class Decided:
    """Everything that a restart must bring back; immutable, so that keeping it costs a reference."""

    watches: Mapping[str, Watch] = field(default_factory=lambda: MappingProxyType({}))
    episodes: tuple[Episode, ...] = ()

    def watching(self, name: str, watch: Watch | None) -> Decided:
        """With this known of the slice; with None it is forgotten."""
        others = {other: kept for other, kept in self.watches.items() if other != name}
        return replace(self, watches=MappingProxyType(others if watch is None else {**others, name: watch}))

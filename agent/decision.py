"""The decision: which slices show a shift, and which of them hurt enough to ask a person for labels.

Two different facts. A *shift is seen* once the evidence of sealed panes against "nothing has changed" reaches a
threshold that the monthly budget of false alarms sets. An *episode* begins where a shift is seen and, in the short
and in the long window, either the lower bound of the drop is above `max_drop`, or nobody can tell: because the
window lies outside what the labelled domains showed, or because the estimate is above `max_drop` and its interval
is too wide to say more. So every page needs certain evidence of a shift, and a shift that does not hurt pages
nobody who could know.

Event time and what it is fed decide everything; the clock only dates what was decided.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from hashlib import sha256
from math import log
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.alert_report import Alerts, Episode, HistoryPoint, Kind, Outcome, SliceDecision
from agent.watch import Decided, Watch
from detectors.evidence import Bets, Evidence
from detectors.strata import labels_needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agent.panes import Pane
    from agent.report import DropEstimate, WindowEstimate
    from agent.watch import Rules

    # Of the long window, and of the short one.
    _Pair = tuple[DropEstimate, DropEstimate]

# Episodes that are over, and estimates of each slice, that are still told about.
RECENT_EPISODES = 50
HISTORY = 300


@dataclass(frozen=True)
class _Beginning:
    """Which episode begins: the how-manieth of a slice's shift that began then, and why."""

    slice: str
    kind: Kind
    began: int
    number: int


class Decision:
    """Decides, pane by pane and estimate by estimate. Used from one thread; `now` is always epoch seconds."""

    def __init__(self, rules: Rules, about: str, rows: Sequence[int]) -> None:
        """`about` names what is watched; `rows` on how many each detector's p-values were calibrated."""
        self.rules = rules
        self._about = about
        self._bets = Bets.calibrated(rows)
        self.decided = Decided()
        self._estimates: dict[tuple[str, str], WindowEstimate] = {}
        self._history: dict[str, deque[HistoryPoint]] = {}
        self._changed: list[Episode] = []
        self._alerts: Alerts | None = None

    def change(self, rules: Rules) -> None:
        """Decide by these rules from now on."""
        self.rules = rules
        self._alerts = None

    def restore(self, decided: Decided) -> None:
        """Be again as then, as after a restart."""
        threshold = self.rules.threshold(len(decided.watches))
        fitting = {name: watch.fitting(self._bets, threshold) for name, watch in decided.watches.items()}
        self._be(replace(decided, watches=MappingProxyType(fitting)))
        self._changed = []

    def roll_back(self, decided: Decided, now: float) -> None:
        """Be again as then, because others read on from there. Episodes that began since have moved to them."""
        known = {each.id for each in decided.episodes}
        moved = [
            replace(each, resolved=now, outcome=Outcome.MOVED)
            for each in self.decided.episodes
            if each.open and each.id not in known
        ]
        self.restore(replace(decided, episodes=(*decided.episodes, *moved)))
        self._changed = moved

    def take_changed(self) -> list[Episode]:
        """The episodes that began, became certain or ended since the last call, in order, as they were then."""
        changed, self._changed = self._changed, []
        return changed

    def sealed(self, panes: Iterable[Pane], now: float) -> None:
        """Take sealed panes into the evidence, each slice's in the order of time."""
        length = int(self.rules.pane)
        for pane in panes:
            name, watches = pane.slice, self.decided.watches
            watch = watches.get(name) or Watch(Evidence.none(self._bets), pane.start)
            threshold = self._threshold({**watches, name: replace(watch, silent=False)})
            known = watch.after(pane, self._bets, threshold, length)
            self._be(self.decided.watching(name, known))
            if not known.seen:
                self._close(name, Outcome.RETURNED, now)

    def passed(self, until: int, now: float) -> None:
        """Panes were sealed up to here: slices that had no traffic for as long as the long window are silent."""
        for name, watch in self.decided.watches.items():
            if not watch.silent and watch.end + self.rules.long <= until:
                self._close(name, Outcome.SILENT, now)
                self._be(self.decided.watching(name, watch.fallen_silent(self._bets)))

    def estimate_of(self, name: str) -> DropEstimate | None:
        """The newest estimate of a slice's long window; None if none was made since the start."""
        made = self._estimates.get((name, "long"))
        return None if made is None else made.estimate

    def estimated(self, made: WindowEstimate, now: float) -> None:
        """Decide on the slice of this estimate."""
        self._alerts = None
        self._estimates[made.slice, made.window] = made
        if made.window == "long" and not made.estimate.reason:
            point = HistoryPoint(made.end, made.estimate.drop, made.estimate.inside_domains)
            self._history.setdefault(made.slice, deque(maxlen=HISTORY)).append(point)
        self._decide(made.slice, now)

    def harmless(self, episode: str, now: float) -> None:
        """Labels say that what this open episode asked about does not hurt.

        Unless it has grown since: labels speak of the window they were drawn from.
        """
        for each in self.decided.episodes:
            watch = self.decided.watches.get(each.slice)
            if each.id == episode and each.open and watch is not None:
                acquitted = watch.acquitted(each, self.rules.max_drop)
                newest = self.estimate_of(each.slice)
                if newest is None or acquitted.covers(newest, self.rules.max_drop):
                    self._close(each.slice, Outcome.HARMLESS, now)
                    self._be(self.decided.watching(each.slice, acquitted))

    def alerts(self) -> Alerts:
        """What there is to say of it; asked for often, and worked out again only when it has changed."""
        if self._alerts is None:
            self._alerts = self._said()
        return self._alerts

    def _said(self) -> Alerts:
        threshold = self._threshold(self.decided.watches)
        asking = {each.slice: each for each in self.decided.episodes if each.open}
        return Alerts(
            limit=self.rules.max_drop,
            slices=tuple(
                SliceDecision(
                    slice=name,
                    evidence=max(watch.evidence.log, 0.0) / log(10),
                    threshold=threshold / log(10),
                    shift_seen=watch.seen,
                    since=float("nan") if watch.began is None else watch.began,
                    annotate=name in asking,
                    needed=asking[name].needed if name in asking else 0,
                )
                for name, watch in sorted(self.decided.watches.items())
                if not watch.silent
            ),
            episodes=self.decided.episodes,
            history=MappingProxyType({name: tuple(points) for name, points in self._history.items()}),
        )

    def _threshold(self, watches: Mapping[str, Watch]) -> float:
        return self.rules.threshold(sum(not watch.silent for watch in watches.values()))

    def _decide(self, name: str, now: float) -> None:
        watch, found = self.decided.watches.get(name), self._current(name)
        if watch is None or found is None:
            return
        kind = common_harm(*found, self.rules.max_drop)
        open_one = next((each for each in self.decided.episodes if each.slice == name and each.open), None)
        if open_one is not None:
            self._go_on(open_one, watch, found, now)
        elif (
            kind is not None
            and watch.began is not None
            and not all(watch.covers(each, self.rules.max_drop) for each in found)
        ):
            began = _Beginning(name, kind, watch.began, watch.asked)
            self._be(self.decided.watching(name, replace(watch, asked=watch.asked + 1)))
            self._fire(began, found, now)

    def _go_on(self, episode: Episode, watch: Watch, found: _Pair, now: float) -> None:
        """What these estimates, of the long and the short window, mean for an open episode."""
        name, limit, calm = episode.slice, self.rules.max_drop, None
        if all(is_calm(each, limit) for each in found):
            calm = watch.end if watch.calm is None else watch.calm
            # The lower bound of a certain drop has come a long way. Where nobody could tell, estimates may hover
            # about the limit: there only a whole long window of calm is one.
            if episode.kind is Kind.DROP or watch.end - calm >= self.rules.long:
                self._close(name, Outcome.RECOVERED, now)
                calm = None
        elif episode.kind is Kind.UNKNOWN and common_harm(*found, limit) is Kind.DROP:
            long = found[0]
            self._changed += self._replace_open(
                name, lambda each: replace(each, kind=Kind.DROP, drop=long.drop, items=long.n, outside=())
            )
        if calm != watch.calm:
            self._be(self.decided.watching(name, replace(watch, calm=calm)))

    def _current(self, name: str) -> _Pair | None:
        """The newest estimates of a slice's long and short window; None unless both are of now."""
        watch, known = self.decided.watches.get(name), self._estimates
        long, short = known.get((name, "long")), known.get((name, "short"))
        if watch is None or long is None or short is None:
            return None
        over = long.end <= watch.end - self.rules.long or short.end <= watch.end - self.rules.short
        return None if over else (long.estimate, short.estimate)

    def _fire(self, beginning: _Beginning, found: _Pair, now: float) -> None:
        long, short = found
        episode = Episode(
            id=self._id(f"{beginning.slice}\0{beginning.began}\0{beginning.number}"),
            slice=beginning.slice,
            kind=beginning.kind,
            since=beginning.began,
            fired=now,
            drop=long.drop,
            items=long.n,
            needed=labels_needed((long.accuracy.low, long.accuracy.high), self.rules.precision),
            outside=long.outside or short.outside,
        )
        self._changed.append(episode)
        over = [each for each in self.decided.episodes if not each.open]
        forgotten = {each.id for each in over[: max(0, len(over) - RECENT_EPISODES)]}
        kept = [each for each in self.decided.episodes if each.id not in forgotten]
        self._be(replace(self.decided, episodes=(*kept, episode)))

    def _close(self, name: str, outcome: Outcome, now: float) -> None:
        """End the open episode of this slice, if there is one."""
        self._changed += self._replace_open(name, lambda each: replace(each, resolved=now, outcome=outcome))

    def _replace_open(self, name: str, change: Callable[[Episode], Episode]) -> list[Episode]:
        """Put another in place of the open episode of this slice, if there is one; that other."""
        episodes, found = list(self.decided.episodes), []
        for place, each in enumerate(episodes):
            if each.slice == name and each.open:
                episodes[place] = change(each)
                found.append(episodes[place])
        if found:
            self._be(replace(self.decided, episodes=tuple(episodes)))
        return found

    def _be(self, decided: Decided) -> None:
        self.decided = decided
        self._alerts = None

    def _id(self, what: str) -> str:
        """The same for the same: what is decided again after a crash is known by the name it had."""
        return sha256(f"{self._about}\0{what}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def harm(estimate: DropEstimate, limit: float) -> Kind | None:
    """What an estimate says against a slice whose shift is seen; None for nothing."""
    drop = estimate.drop
    if estimate.reason:
        return None
    if estimate.inside_domains and drop.low > limit:
        return Kind.DROP
    # With an interval wider than twice the limit, no drop that is not huge could ever be called one.
    blunt = drop.estimate > limit and drop.high - drop.low > 2 * limit
    return Kind.UNKNOWN if blunt or not estimate.inside_domains else None


def common_harm(long: DropEstimate, short: DropEstimate, limit: float) -> Kind | None:
    """What both windows of a slice say; None where one of them says nothing.

    The long one says which: the short one holds too few items for a narrow interval, and need only agree.
    """
    kinds = harm(long, limit), harm(short, limit)
    if None in kinds:
        return None
    return Kind.DROP if kinds[0] is Kind.DROP and short.inside_domains else Kind.UNKNOWN


def is_calm(estimate: DropEstimate, limit: float) -> bool:
    """Whether an estimate speaks for the end of an episode: from low > max_drop it is a long way to here."""
    return not estimate.reason and estimate.inside_domains and estimate.drop.estimate <= limit

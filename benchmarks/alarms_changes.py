"""A change in one slice of a model: when ours sees it and pages, beside what the others do on the same items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from alarms_rivals import (
    ADWIN_TUNED,
    ADWIN_USUAL,
    FIXED_OWN,
    FIXED_TUNED,
    FIXED_USUAL,
    KSWIN_ITEMS,
    KSWIN_TUNED,
    KSWIN_USUAL,
    USUAL_THRESHOLD,
    Alarm,
    adwin,
    alarms,
    begun,
    hourly_ratio,
    kswin,
    strict_kswin,
)
from alarms_runs import MAX_DROP, Run, estimator_of
from alarms_streams import LONG, PANE, START, VOLUMES, Traffic, stationary
from alarms_texts import STYLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alarms_models import Watched
    from alarms_rivals import Tuned
    from alarms_runs import Outcome

SHARES = (0.1, 0.25, 0.5, 1.0)
# Usual traffic, then the change, then usual traffic again: 12, 18 and 12 hours.
BEFORE, DURING, AFTER = 2 * LONG, 3 * LONG, 2 * LONG
# Every hour: `estimate.every: 1h`.
EVERY = 6
HARMLESS = 0.01


@dataclass(frozen=True)
class Found:
    """One change of one slice.

    Delays are items of the slice since the change, NaN where nothing came while it lasted; `drop` is the
    accuracy lost in the whole of the traffic by its labels. `page` is the kind of the first page, empty for none;
    `early` is whether a shift was seen before the change. `resolved` is the hours from the return of the usual
    traffic to the end of the episode, `unseen` to the end of "shift seen": zero where that had ended before, NaN
    where it had not ended when the run did. `elsewhere` counts shifts seen in the other slices.
    """

    model: str
    change: str
    share: float
    drop: float
    early: bool
    seen: float
    page: str
    paged: float
    episodes: int
    resolved: float
    unseen: float
    elsewhere: int
    rivals: dict[str, Alarm]

    @property
    def domain(self) -> bool:
        """Whether another domain came, rather than another style."""
        return self.change not in STYLES

    @property
    def harm(self) -> str:
        """What the labels say of it."""
        if self.drop > MAX_DROP:
            return "harmful"
        return "harmless" if self.drop <= HARMLESS else "slight"


@dataclass(frozen=True)
class Changed:
    """The streams of a run: every slice's, and which of them changes."""

    traffics: list[Traffic]
    place: int

    @property
    def traffic(self) -> Traffic:
        """The slice that changes."""
        return self.traffics[self.place]

    def since(self, pane: int) -> float:
        """Items of that slice from the change to the end of a pane."""
        return float(self.traffic.items(BEFORE, pane + 1))


def streams_of(watched: Watched, change: str, share: float, number: int) -> Changed:
    """The change comes to one slice, another one in each run."""
    draw = np.random.default_rng((2, number))
    shares = np.concatenate([np.zeros(BEFORE), np.full(DURING, share), np.zeros(AFTER)])
    traffics, place = stationary(len(shares), watched.usual, draw), number % len(VOLUMES)
    traffics[place] = Traffic.drawn(place, (watched.usual, watched.changes[change]), shares, draw)
    return Changed(traffics, place)


def changes(watched: Watched, settings: Tuned, shares: tuple[float, ...] = SHARES) -> Iterator[Found]:
    """Every change of a model, in every share."""
    estimator = estimator_of(watched)
    primary = list(watched.reference.detectors).index(watched.reference.primary)
    for number, change in enumerate(watched.changes):
        for share in shares:
            place = len(SHARES) * number + SHARES.index(share) + number % 2
            streams = streams_of(watched, change, share, place)
            outcome = Run(watched, estimator, (3, place)).over(streams.traffics, EVERY)
            others = rivals(streams, primary, settings, watched.name)
            yield found(watched, (change, share), streams, outcome, others)


def found(
    watched: Watched, what: tuple[str, float], streams: Changed, outcome: Outcome, others: dict[str, Alarm]
) -> Found:
    """What came of one run."""
    change, share = what
    name = streams.traffic.slice
    history = outcome.slices[name]
    during = [pane for pane in history.seen if BEFORE <= pane < BEFORE + DURING]
    fired = [(pane, each) for pane, each in outcome.fired(name) if pane >= BEFORE]
    back = BEFORE + DURING
    open_then = [each for pane, each in fired if pane < back and (each.open or ended(each.resolved) >= back)]
    unseen = [pane for pane in history.unseen if during and pane >= during[0]]
    return Found(
        model=watched.name,
        change=change,
        share=share,
        drop=watched.drop(change, share),
        early=any(pane < BEFORE for pane in history.seen),
        seen=streams.since(during[0]) if during else float("nan"),
        page=str(fired[0][1].kind) if fired and fired[0][0] < back else "",
        paged=streams.since(fired[0][0]) if fired and fired[0][0] < back else float("nan"),
        episodes=len(fired),
        resolved=hours(ended(open_then[0].resolved) - back + 1) if open_then else 0.0,
        unseen=hours(max(unseen[-1] - back + 1, 0)) if unseen and not history.now else float("nan"),
        elsewhere=sum(len(each.seen) for key, each in outcome.slices.items() if key != name),
        rivals=others,
    )


def ended(time: float) -> float:
    """The pane at whose end an episode ended; NaN for one that is open."""
    return (time - START) / PANE - 1


def hours(panes: float) -> float:
    """How long so many panes are."""
    return panes * PANE / 3600


def rivals(streams: Changed, primary: int, settings: Tuned, model: str) -> dict[str, Alarm]:
    """The others on the slice that changes, from the same items."""
    traffic = streams.traffic
    values, ratio = traffic.p(primary), hourly_ratio(traffic, primary)
    first, last = (int(traffic.starts[pane]) for pane in (BEFORE, BEFORE + DURING))

    def among(places: list[int], offset: int = 0) -> Alarm:
        during = [place + offset - first for place in places if first < place + offset <= last]
        return Alarm(float(during[0]) if during else float("nan"), len(during))

    def above(threshold: float) -> Alarm:
        panes = [pane for pane in begun(ratio > threshold).tolist() if BEFORE <= pane < BEFORE + DURING]
        return Alarm(streams.since(panes[0]) if panes else float("nan"), len(panes))

    recent, soon = max(first - KSWIN_ITEMS, 0), min(first + KSWIN_ITEMS, last)
    return {
        ADWIN_USUAL: among(alarms(adwin(2e-3), values)),
        ADWIN_TUNED: among(alarms(adwin(settings.delta), values)),
        KSWIN_USUAL: among(alarms(kswin(), values[first:soon], 1), first),
        KSWIN_TUNED: among(alarms(strict_kswin(settings.alpha), values[recent:soon]), recent),
        FIXED_USUAL: above(USUAL_THRESHOLD),
        FIXED_TUNED: above(settings.threshold),
        FIXED_OWN: above(settings.own_threshold[model]),
    }

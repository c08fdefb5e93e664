"""Inline SVG without a script: text keeps its size at any width, and every drawing says in words what it shows.

A drawing is two layers over the same place: one whose coordinates are stretched from 0..100 to the width at hand
(areas and lines, whose strokes do not stretch), and one of marks and texts placed by percent. Colours are classes
of the stylesheet, because the page's policy allows no style of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING

from markupsafe import Markup

from exporters.status.format import bare, moment, points, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.alert_report import HistoryPoint
    from agent.interval import Interval

# More points than this no screen tells apart; so many gridlines are easily read; so many marks are too.
MOST_POINTS, MOST_LINES, MOST_MARKS = 120, 5, 40
# So many times the usual distance without an estimate is a gap.
GAP = 3
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FRAME = Markup(
    '<svg class="chart" role="img" aria-labelledby="{id}-t" aria-describedby="{id}-d">'
    '<title id="{id}-t">{title}</title>'
    '<desc id="{id}-d">{words}</desc>'
    '<svg class="plot" viewBox="0 0 100 100" preserveAspectRatio="none">{areas}</svg>'
    '<svg class="plot over">{marks}</svg></svg>'
)


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` onto 0 to 100, or from 100 to 0 where that points upwards."""

    low: float
    high: float
    upwards: bool = False

    def __call__(self, value: float) -> float:
        """The place, never outside."""
        share = (value - self.low) / (self.high - self.low)
        place = 100 * min(max(share, 0.0), 1.0)
        return round(100 - place if self.upwards else place, 2)


def drop_over_time(history: Sequence[HistoryPoint], limit: float, began: float, now: float) -> Markup | None:
    """The estimated drop with its interval, the limit, and when the change began; None without two points."""
    shown = thinned([each for each in history if isfinite(each.end)])
    known = [each for each in shown if _known(each.drop)]
    if len(known) < 2:  # noqa: PLR2004 - one point has no course
        return None
    across = Scale(shown[0].end, max(shown[-1].end, shown[0].end + 1))
    up = _drop_scale([each.drop for each in known], limit)
    areas, marks = [], _grid(up)
    for run in _runs(shown):
        areas += _band(run, across, up)
    if isfinite(limit):
        marks.append(Markup('<line class="limit" x1="0" x2="100%" y1="{0}%" y2="{0}%"/>').format(up(limit)))
        marks.append(
            Markup('<text class="limit" x="4" y="{}%" dy="-.4em">limit {}</text>').format(up(limit), bare(limit))
        )
    if isfinite(began) and across.low <= began <= across.high:
        marks.append(Markup('<line class="began" y1="0" y2="100%" x1="{0}%" x2="{0}%"/>').format(across(began)))
    outside = [each for each in known if not each.inside_domains]
    marks += [
        Markup('<circle class="outside" r="3.5" cx="{}%" cy="{}%"/>').format(
            across(each.end), up(each.drop.estimate)
        )
        for each in thinned(outside, MOST_MARKS)
    ]
    marks += _times(across)
    last = known[-1]
    words = f"{len(history)} estimates from {moment(shown[0].end, now)} to {moment(shown[-1].end, now)}. "
    words += f"The newest: {points(last.drop.estimate)} points lost, {span(last.drop)}. "
    words += f"The limit is {bare(limit)}. " if isfinite(limit) else ""
    words += "The numbers are in the table below."
    return FRAME.format(
        id="drop-chart",
        title="Points of accuracy lost, over time",
        words=words,
        areas=_joined(areas),
        marks=_joined(marks),
    )


def thinned(values: Sequence[HistoryPoint], most: int = MOST_POINTS) -> list[HistoryPoint]:
    """At most so many of them, evenly, with the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]


def _runs(shown: Sequence[HistoryPoint]) -> list[list[HistoryPoint]]:
    """Estimates that follow each other; a time without any is left open."""
    usual = median(after.end - before.end for before, after in pairwise(shown))
    runs: list[list[HistoryPoint]] = [[]]
    for before, point in pairwise((shown[0], *shown)):
        if not _known(point.drop) or point.end - before.end > GAP * usual:
            runs.append([])
        if _known(point.drop):
            runs[-1].append(point)
    return [run for run in runs if run]


def _band(run: Sequence[HistoryPoint], across: Scale, up: Scale) -> list[Markup]:
    """The interval as an area, the estimate as a line."""
    upper = [f"{across(each.end)},{up(each.drop.high)}" for each in run]
    lower = [f"{across(each.end)},{up(each.drop.low)}" for each in run]
    middle = [f"{across(each.end)},{up(each.drop.estimate)}" for each in run]
    return [
        Markup('<polygon class="band" points="{}"/>').format(" ".join(upper + lower[::-1])),
        Markup('<polyline class="line" points="{}"/>').format(" ".join(middle)),
    ]


def _grid(up: Scale) -> list[Markup]:
    """Lines at round numbers of points, the zero among them."""
    step = next((each for each in STEPS if (up.high - up.low) / each <= MOST_LINES), STEPS[-1])
    first = int(up.low // step)
    ticks = [
        number * step for number in range(first, first + 2 * MOST_LINES) if up.low <= number * step <= up.high
    ]
    line = Markup(
        '<line class="{kind}" x1="0" x2="100%" y1="{at}%" y2="{at}%"/>'
        '<text class="up" x="-6" y="{at}%" dy=".33em">{words}</text>'
    )
    return [line.format(kind="zero" if not each else "grid", at=up(each), words=bare(each)) for each in ticks]


def _times(across: Scale) -> list[Markup]:
    """The two ends and the middle; with the day where that is not the day of the end."""
    text = Markup('<text class="time {}" x="{}%" y="100%" dy="1.3em">{}</text>')
    places = (("start", across.low), ("middle", (across.low + across.high) / 2), ("end", across.high))
    return [
        text.format(anchor, across(time), moment(time, across.high).removesuffix(" UTC"))
        for anchor, time in places
    ]


def _drop_scale(drops: Iterable[Interval], limit: float) -> Scale:
    """Room for every interval, the zero and the limit."""
    bounds = [bound for each in drops for bound in (each.low, each.high)]
    bounds += [0.0, limit] if isfinite(limit) else [0.0]
    low, high = min(bounds), max(bounds)
    room = 0.08 * max(high - low, 0.02)
    return Scale(low - room if low < 0 else low, high + room, upwards=True)


def interval_bars(drops: Sequence[Interval], limit: float) -> list[Markup]:
    """One small bar an interval, all on one scale with the zero and the limit. The numbers stand beside them."""
    known = [each for each in drops if _known(each)]
    vertical = _drop_scale(known, limit)
    across = Scale(vertical.low, vertical.high)
    return [_interval_bar(each, across, limit) for each in drops]


def _interval_bar(drop: Interval, across: Scale, limit: float) -> Markup:
    if not _known(drop):
        return Markup("")
    low, high = across(drop.low), across(drop.high)
    parts = [
        Markup('<line class="zero" x1="{0}%" x2="{0}%" y1="0" y2="100%"/>').format(across(0.0)),
        Markup('<rect class="bar" x="{}%" width="{}%" y="6" height="6" rx="3"/>').format(
            low, round(high - low, 2)
        ),
        Markup('<circle class="dot" cx="{}%" cy="9" r="4"/>').format(across(drop.estimate)),
    ]
    if isfinite(limit):
        parts.append(Markup('<line class="limit" x1="{0}%" x2="{0}%" y1="0" y2="100%"/>').format(across(limit)))
    return Markup('<svg class="interval" aria-hidden="true">{}</svg>').format(_joined(parts))


def level_bar(value: float, mark: float, top: float) -> Markup:
    """A bar up to `value` and a mark across it, from 0 to `top`. The numbers stand beside it."""
    across = Scale(0.0, max(top, 1e-9))
    parts = []
    if isfinite(value):
        over = " over" if value > mark else ""
        parts.append(Markup('<rect class="level{}" width="{}%" y="4" height="8"/>').format(over, across(value)))
    if isfinite(mark):
        parts.append(Markup('<line class="limit" x1="{0}%" x2="{0}%" y1="0" y2="100%"/>').format(across(mark)))
    return Markup('<svg class="interval" aria-hidden="true">{}</svg>').format(_joined(parts))


@dataclass(frozen=True)
class Bucket:
    """The share of the source and of a window whose depth lies between two bounds."""

    low: float
    high: float
    source: float
    window: float


def buckets(edges: Sequence[float], source: Sequence[int], window: Sequence[int]) -> list[Bucket]:
    """Both as shares, without the empty ends; nothing where either is not known."""
    whole, part = sum(source), sum(window)
    if not whole or not part or not len(edges) == len(source) == len(window):
        return []
    filled = [place for place, (one, other) in enumerate(zip(source, window, strict=True)) if one or other]
    lows = (0.0, *edges[:-1])
    return [
        Bucket(lows[place], edges[place], source[place] / whole, window[place] / part)
        for place in range(filled[0], filled[-1] + 1)
    ]


def depths(shares: Sequence[Bucket]) -> Markup | None:
    """The window's depths as bars, the source's as an outline; None without any."""
    if not shares:
        return None
    across = Scale(shares[0].low, shares[-1].high)
    up = Scale(0.0, 1.08 * max(max(each.source, each.window) for each in shares), upwards=True)
    bars = [
        Markup('<rect class="window" x="{}" y="{}" width="{}" height="{}"/>').format(
            across(each.low),
            up(each.window),
            round(across(each.high) - across(each.low), 2),
            round(100 - up(each.window), 2),
        )
        for each in shares
        if each.window
    ]
    steps = " ".join(f"{across(end)},{up(each.source)}" for each in shares for end in (each.low, each.high))
    bars.append(Markup('<polyline class="source" points="0,100 {} 100,100"/>').format(steps))
    lower = sum(each.window for each in shares if each.high <= _middle(shares))
    words = (
        f"Depth runs from {shares[0].low:.2f}, unlike the source, to {shares[-1].high:.2f}, deep inside it. "
        f"{lower:.0%} of the window lies where the shallower half of the source lies. "
        "The numbers are in the table below."
    )
    text = Markup('<text class="time {}" x="{}%" y="100%" dy="1.3em">{}</text>')
    marks = [
        text.format("start", 0, f"{shares[0].low:.2f} unlike"),
        text.format("end", 100, f"{shares[-1].high:.2f} alike"),
    ]
    return FRAME.format(
        id="depth-chart",
        title="Depth of the items against the source",
        words=words,
        areas=_joined(bars),
        marks=_joined(marks),
    )


def _middle(shares: Sequence[Bucket]) -> float:
    """The upper bound of the bucket that holds the source's median depth."""
    below = 0.0
    for each in shares:
        below += each.source
        if below >= 0.5:  # noqa: PLR2004 - the median
            return each.high
    return shares[-1].high


def _known(drop: Interval) -> bool:
    return isfinite(drop.estimate) and isfinite(drop.low) and isfinite(drop.high)


def _joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)

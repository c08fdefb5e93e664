"""What the template shows, ready to print: it holds no decision of its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING
from urllib.parse import quote

from exporters.status import charts
from exporters.status.facts import plain
from exporters.status.format import NOTHING, about, back, bare, count, moment, number, percent, points, since, span
from exporters.status.words import LABELS, grounds

if TYPE_CHECKING:
    from markupsafe import Markup

    from agent.alert_report import HistoryPoint
    from exporters.status.charts import Bucket
    from exporters.status.facts import SliceFacts, Status

# The share of items that calibrated detectors call out of distribution where nothing has shifted.
USUAL = 0.05
MOST_DETECTORS, MOST_ESTIMATES = 2, 12


@dataclass(frozen=True)
class Row:
    """A slice in the table of slices; `key` names it in an address, `note` stands under its drop."""

    name: str
    key: str
    state: str
    label: str
    drop: str
    note: str
    bar: Markup
    shift: str
    evidence: str
    items: str
    window: str
    detectors: str


def rows(status: Status) -> list[Row]:
    """The slices, the worst first."""
    bars = charts.interval_bars([each.drop for each in status.slices], status.limit)
    return [_row(each, bar, status.now) for each, bar in zip(status.slices, bars, strict=True)]


def _row(facts: SliceFacts, bar: Markup, now: float) -> Row:
    window, decision = facts.window, facts.decision
    known = isfinite(facts.drop.estimate)
    note = span(facts.drop) if known else facts.reason
    if known and facts.made is not None and not facts.inside:
        note += "; unlike any labelled domain" if not facts.reason else "; when it began"
    evidence = (
        f"evidence {number(decision.evidence)}, seen from {number(decision.threshold)}"
        if decision is not None
        else ""
    )
    return Row(
        name=plain(facts.name),
        key=key(facts.name),
        state=facts.state,
        label=LABELS[facts.state],
        drop=points(facts.drop.estimate),
        note=note,
        bar=bar,
        shift=_shift(facts, now),
        evidence=evidence,
        items=f"{window.items:,}" if window is not None else NOTHING,
        window=f"until {moment(window.end, now)}" if window is not None else "",
        detectors=_loudest(facts),
    )


def key(name: str) -> str:
    """The slice in an address.

    >>> key('größe "x"')
    'gr%C3%B6%C3%9Fe%20%22x%22'
    """
    return quote(plain(name), safe="")


def _shift(facts: SliceFacts, now: float) -> str:
    if facts.shift_seen or facts.episode is not None:
        return f"since {moment(facts.since, now)}" if isfinite(facts.since) else "seen"
    return "none seen" if facts.decision is not None else NOTHING


def _loudest(facts: SliceFacts) -> str:
    ratios = facts.window.ood_ratio if facts.window is not None else {}
    above = sorted(((ratio, name) for name, ratio in ratios.items() if 2 * USUAL < ratio < inf), reverse=True)
    if not above:
        return f"none above {2 * USUAL:.0%}" if ratios else NOTHING
    return ", ".join(f"{plain(name)} {ratio:.0%}" for ratio, name in above[:MOST_DETECTORS])


@dataclass(frozen=True)
class Tile:
    """One of the facts under the answer."""

    name: str
    value: str
    note: str


def tiles(status: Status) -> list[Tile]:
    """How much, since when, where, and what labels say, of the worst slice."""
    if not status.slices:
        return []
    worst, now = status.slices[0], status.now
    whole = count(len(status.slices), "slice")
    began = isfinite(worst.since)
    limit = f"; you accept {bare(status.limit)}" if isfinite(status.limit) else ""
    bounds = f"{span(worst.drop)}{limit}" if isfinite(worst.drop.estimate) else worst.reason
    return [
        Tile("Points of accuracy lost, estimated", points(worst.drop.estimate), bounds),
        Tile("Since", moment(worst.since, now) if began else "no shift seen", _back(worst, now)),
        Tile("Slice", plain(worst.name), f"the worst of {whole}" if len(status.slices) > 1 else "the only one"),
        _labels(worst),
    ]


def _back(facts: SliceFacts, now: float) -> str:
    return back(facts.since, now, facts.newest) if isfinite(facts.since) else ""


def _labels(facts: SliceFacts) -> Tile:
    labels = facts.labels
    if labels is not None:
        known = isfinite(labels.combined.estimate)
        note = f"they say {about(labels.combined)}" if known else "nothing can be said from them yet"
        return Tile("Labels back", f"{labels.labelled:,} of {labels.asked:,}", note)
    if facts.needed:
        return Tile("Labels", f"{facts.needed:,} asked for", "none came back yet")
    return Tile("Labels", "none asked for", "")


@dataclass(frozen=True)
class Estimated:
    """One estimate of the table under the chart."""

    end: str
    drop: str
    span: str
    inside: str


@dataclass(frozen=True)
class Detector:
    """One detector's share of items out of distribution in either window."""

    name: str
    short: str
    long: str
    bar: Markup


@dataclass(frozen=True)
class Detail:
    """Everything about one slice. `evidence` and `evidence_bar` are empty where nothing is decided."""

    name: str
    label: str
    state: str
    grounds: str
    course: Markup | None
    estimates: list[Estimated]
    older: int
    depths: Markup | None
    buckets: list[Bucket]
    detectors: list[Detector]
    evidence: str
    evidence_bar: Markup | str


def detail(facts: SliceFacts, status: Status) -> Detail:
    """The slice that is looked at."""
    shape, now = status.report.shape, status.now
    window = facts.window
    shares = charts.buckets(
        shape.depth_edges, shape.depth_counts, window.depth_counts if window is not None else ()
    )
    newest = facts.history[: -MOST_ESTIMATES - 1 : -1]
    return Detail(
        name=plain(facts.name),
        label=LABELS[facts.state],
        state=facts.state,
        # Of the worst, the answer has said it.
        grounds="" if facts is status.slices[0] and not status.trouble else grounds(facts, now),
        course=charts.drop_over_time(facts.history, facts.limit, facts.since, now),
        estimates=[_estimated(each, now) for each in newest],
        older=len(facts.history) - len(newest),
        depths=charts.depths(shares),
        buckets=shares,
        detectors=_detectors(facts),
        evidence=_evidence(facts, now),
        evidence_bar=_evidence_bar(facts),
    )


def _estimated(point: HistoryPoint, now: float) -> Estimated:
    known = isfinite(point.drop.estimate)
    inside = "yes" if point.inside_domains else "no"
    return Estimated(
        moment(point.end, now), points(point.drop.estimate), span(point.drop), inside if known else NOTHING
    )


def _detectors(facts: SliceFacts) -> list[Detector]:
    ratios = {name: window.ood_ratio for name, window in facts.windows.items()}
    short, long = ratios.get("short", {}), ratios.get("long", {})
    names = dict.fromkeys((*long, *short))
    main = {name: long.get(name, short.get(name, float("nan"))) for name in names}
    known = [ratio for ratio in main.values() if isfinite(ratio)]
    top = max([4 * USUAL, *known])
    ranked = sorted(
        names, key=lambda name: (isnan(main[name]), -main[name] if isfinite(main[name]) else 0.0, name)
    )
    unknown = float("nan")
    return [
        Detector(
            plain(name),
            percent(short.get(name, unknown)),
            percent(long.get(name, unknown)),
            charts.level_bar(main[name], USUAL, top),
        )
        for name in ranked
    ]


def _evidence(facts: SliceFacts, now: float) -> str:
    decision = facts.decision
    if decision is None:
        return ""
    said = f"It is {number(decision.evidence)}; from {number(decision.threshold)} on, a shift counts as seen."
    return (
        f"{said} It is seen, since {since(decision.since, now, facts.newest)}."
        if decision.shift_seen
        else f"{said} Not seen."
    )


def _evidence_bar(facts: SliceFacts) -> Markup | str:
    """To three thresholds at most: how much more there is does not matter."""
    decision = facts.decision
    if decision is None or not isfinite(decision.threshold):
        return ""
    least, most = 1.25 * decision.threshold, 3 * decision.threshold
    top = min(max(least, decision.evidence), most) if isfinite(decision.evidence) else least
    return charts.level_bar(decision.evidence, decision.threshold, top)

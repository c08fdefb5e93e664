"""A Report such as an agent gives two hours after one slice of three has drifted, and one of an ordinary day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import exp, sin

from agent.alert_report import (
    Alerts,
    BatchFacts,
    Episode,
    HistoryPoint,
    Kind,
    Notified,
    Outcome,
    Realised,
    SliceDecision,
)
from agent.interval import Interval
from agent.report import (
    Counts,
    DropEstimate,
    Estimation,
    Histogram,
    ModelInfo,
    Report,
    SourceShape,
    SourceStatus,
    Upkeep,
    WindowEstimate,
    WindowReport,
)

NOW = datetime(2026, 11, 21, 16, 32, 10, tzinfo=UTC).timestamp()
BEGAN = datetime(2026, 11, 21, 14, 20, tzinfo=UTC).timestamp()
END = datetime(2026, 11, 21, 16, 30, tzinfo=UTC).timestamp()
PANE, SHORT, LONG = 300.0, 1800.0, 7200.0
DETECTORS = ("knn", "vim", "depth", "energy", "msp", "maxlogit", "react", "dice", "klm")
EDGES = tuple(round(0.05 * place, 2) for place in range(1, 41))
EPISODE = "4be1c0a97f20d355"


def bell(middle: float, width: float, items: int) -> tuple[int, ...]:
    """Items by depth, as of a bell curve."""
    heights = [exp(-(((edge - 0.025 - middle) / width) ** 2)) for edge in EDGES]
    return tuple(round(items * height / sum(heights)) for height in heights)


def window(name: str, kind: str, items: int, shifted: float) -> WindowReport:
    """A window in which this share of the traffic is new."""
    usual = {each: 0.05 + 0.008 * sin(3 * place + len(name)) for place, each in enumerate(DETECTORS)}
    loud = {each: 0.62 - 0.055 * place for place, each in enumerate(DETECTORS)}
    parts = zip(bell(1.34, 0.13, items), bell(1.12, 0.1, items), strict=True)
    return WindowReport(
        slice=name,
        window=kind,
        start=END - (LONG if kind == "long" else SHORT),
        end=END,
        items=items,
        enough=True,
        ood_ratio={each: (1 - shifted) * usual[each] + shifted * loud[each] for each in DETECTORS},
        depth_mean=1.34 - 0.22 * shifted,
        q=0.5 - 0.35 * shifted,
        confidence_mean=0.91 - 0.08 * shifted,
        classes={"question": items // 2, "complaint": items - items // 2},
        depth_counts=tuple(round((1 - shifted) * home + shifted * new) for home, new in parts),
    )


def drop(middle: float, half: float) -> Interval:
    """A symmetrical interval."""
    return Interval(middle, middle - half, middle + half)


def made(name: str, kind: str, middle: float, half: float, items: int) -> WindowEstimate:
    """An estimate within what the labelled domains showed."""
    found = drop(middle, half)
    accuracy = Interval(*(0.934 - bound for bound in (found.estimate, found.high, found.low)))
    estimate = DropEstimate(items, 0.9, "", found, accuracy, inside_domains=True)
    return WindowEstimate(name, kind, END, END + 4, estimate)


def course(final: float, phase: float) -> tuple[HistoryPoint, ...]:
    """Estimates of eight hours that end near `final`; what is lost comes into the window from BEGAN on."""
    ends = [END - PANE * back for back in range(96, -1, -1)]
    shares = [min(max((end - BEGAN) / LONG, 0.0), 1.0) for end in ends]
    return tuple(
        HistoryPoint(
            end,
            drop(0.004 + (final - 0.004) * share + 0.004 * sin(place / 5 + phase), 0.028 + 0.022 * share),
            inside_domains=True,
        )
        for place, (end, share) in enumerate(zip(ends, shares, strict=True))
    )


def drifted() -> Report:
    """Slice `de` has drifted since 14:20; its labels are coming back."""
    return Report(
        time=NOW,
        version="0.1.0",
        info=ModelInfo("tickets", "7c1f62d0a94b", "all-MiniLM-L6-v2", "CPUExecutionProvider"),
        counts=Counts(
            received={"kafka": 418_230},
            processed=417_902,
            discarded={"late": 211, "duplicate": 86},
            dead_lettered={"not_json": 7},
            in_flight=24,
            labels=118,
        ),
        heartbeat=NOW - 0.3,
        ready=True,
        windows=tuple(
            window(name, kind, items // (1 if kind == "long" else 4), shifted)
            for name, items, shifted in (("de", 2_412, 0.92), ("en", 9_130, 0.0), ("fr", 1_877, 0.02))
            for kind in ("long", "short")
        ),
        item_p_values={},
        encode_seconds=Histogram.empty((1.0,)),
        score_seconds=Histogram.empty((1.0,)),
        batch_records=Histogram.empty((1.0,)),
        estimation=Estimation(
            (
                made("de", "long", 0.121, 0.05, 2_412),
                made("de", "short", 0.128, 0.061, 603),
                made("en", "long", 0.003, 0.021, 9_130),
                made("fr", "long", 0.008, 0.033, 1_877),
            ),
            last_success={"de": END + 4, "en": END + 4, "fr": END + 5},
        ),
        source=SourceStatus(lag={("tickets", "0"): 118, ("tickets", "1"): 64}),
        upkeep=Upkeep(last_checkpoint=NOW - 4),
        alerts=Alerts(
            limit=0.05,
            slices=(
                SliceDecision("de", 61.4, 4.9, shift_seen=True, since=BEGAN, annotate=True, needed=310),
                SliceDecision("en", 0.7, 4.9, shift_seen=False),
                SliceDecision("fr", 1.9, 4.9, shift_seen=False),
            ),
            episodes=(
                Episode(EPISODE, "de", Kind.DROP, BEGAN, BEGAN + 2_110, drop(0.112, 0.055), 2_240, 310),
                Episode(
                    "90ad13c25be84f61",
                    "fr",
                    Kind.UNKNOWN,
                    NOW - 12 * 86_400,
                    NOW - 12 * 86_400 + 1_500,
                    Interval(),
                    1_640,
                    310,
                    ("pad",),
                    NOW - 11 * 86_400,
                    Outcome.HARMLESS,
                ),
            ),
            realised=(
                Realised("de", EPISODE, 330, 118, drop(0.106, 0.062), drop(0.113, 0.041), drop(0.112, 0.055)),
                Realised("fr", "90ad13c25be84f61", 330, 330, drop(0.012, 0.031), drop(0.011, 0.024)),
            ),
            batches=(BatchFacts(EPISODE, "de", f"annotation/{EPISODE}", 330, texts=True, written=BEGAN + 2_112),),
            history={"de": course(0.121, 0.0), "en": course(0.003, 1.0), "fr": course(0.008, 2.0)},
        ),
        notified={"grafana": Notified(sent=3)},
        shape=SourceShape(EDGES, bell(1.34, 0.13, 6_000), 0.934),
    )


def calm() -> Report:
    """The same agent on an ordinary day: nothing is seen, nothing is asked."""
    report = drifted()
    alerts = Alerts(
        limit=0.05,
        slices=tuple(SliceDecision(each.slice, 0.6, 4.9, shift_seen=False) for each in report.alerts.slices),
        history={name: course(0.003, 1.0) for name in report.alerts.history},
    )
    estimates = tuple(
        made(each.slice, "long", 0.004, 0.024, each.estimate.n) for each in report.estimation.estimates
    )
    return replace(
        report,
        windows=tuple(window(each.slice, each.window, each.items, 0.0) for each in report.windows),
        estimation=replace(report.estimation, estimates=estimates),
        alerts=alerts,
    )

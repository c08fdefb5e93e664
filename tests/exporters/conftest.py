"""A fixed Report of awkward values, and the place of the golden files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

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
    SourceStatus,
    Upkeep,
    WindowEstimate,
    WindowReport,
)

NAN = float("nan")
P_EDGES = (0.001, 0.01, 0.05, 0.5, 1.0)
SECONDS = (0.005, 0.1, 1.0)
CLASSES = {"positive": 3, 'a "quoted" class': 1, "never": 0}
WINDOW = WindowReport(
    slice="default",
    window="short",
    start=1767225600.0,
    end=1767225900.0,
    items=4,
    enough=True,
    ood_ratio={"knn": 0.25, "depth": 1 / 3},
    depth_mean=1.2345678901234567,
    q=0.0,
    confidence_mean=1.0,
    classes=CLASSES,
)
LARGE = replace(
    WINDOW, window="long", items=4 * 10**9, classes={name: count * 10**9 for name, count in CLASSES.items()}
)
TOO_FEW = replace(
    WINDOW,
    slice="quiet",
    items=1,
    enough=False,
    ood_ratio={},
    depth_mean=NAN,
    q=NAN,
    confidence_mean=NAN,
    classes={"positive": 1},
)
ESTIMATE = DropEstimate(
    n=4,
    level=0.9,
    reason="",
    drop=Interval(0.041, -1e-12, 0.065),
    accuracy=Interval(0.859, 0.835, 0.9),
    methods={"pad": (0.5, 0.04)},
    metrics={"pad": 0.5, "js": NAN},
    inside_domains=False,
    outside=("js",),
)
NO_SAYING = replace(
    ESTIMATE,
    n=1,
    reason="1 items are too few",
    drop=Interval(),
    accuracy=Interval(),
    methods={},
    metrics={"js": 0.25},
    outside=(),
)
ESTIMATION = Estimation(
    estimates=(
        WindowEstimate("default", "long", 1767225900.0, 1767225990.0, replace(ESTIMATE, inside_domains=True)),
        WindowEstimate("default", "short", 1767225900.0, 1767225990.0, ESTIMATE),
        WindowEstimate("lone \ud800 surrogate", "short", 1767225900.0, 1767225990.0, ESTIMATE),
        WindowEstimate("quiet", "short", 1767225900.0, 1767225990.0, NO_SAYING),
    ),
    failures={"memory": 0, "error": 2},
    missed=3,
    seconds=Histogram.empty((0.5, 60.0)).observe(0.25).observe(61.0),
    running_since=1767225999.5,
    last_success={"default": 1767225990.0, "quiet": 1767225990.0},
)

LOST = Interval(0.12, 0.081, 0.16)
DECISIONS = (
    SliceDecision("default", 4.25, 4.5, shift_seen=False),
    SliceDecision("quiet", NAN, 4.5, shift_seen=False),
    SliceDecision("reviews", 61.5, 4.5, shift_seen=True, since=1767222000.0, annotate=True, needed=683),
    SliceDecision("lone \ud800 surrogate", 4.5, 4.5, shift_seen=True, since=1767225000.0),
    SliceDecision('new\nline, "quote" and {brace=', 9.0, 4.5, shift_seen=True, annotate=True, needed=1000),
)
EPISODES = (
    Episode(
        id="5d0f",
        slice="reviews",
        kind=Kind.UNKNOWN,
        since=1767100000.0,
        fired=1767103600.0,
        drop=Interval(),
        items=2500,
        needed=683,
        outside=("pad", "js"),
        resolved=1767200000.0,
        outcome=Outcome.HARMLESS,
    ),
    Episode("9ac1", "reviews", Kind.DROP, 1767222000.0, 1767225000.5, LOST, 3100, 683),
    Episode(
        'new "line"',
        'new\nline, "quote" and {brace=',
        Kind.UNKNOWN,
        1767224000.0,
        1767225500.0,
        Interval(),
        480,
        1000,
        ("js",),
    ),
    Episode(
        "e001", "default", Kind.DROP, 1.0, 2.0, LOST, 3100, 683, resolved=1767190000.0, outcome=Outcome.RECOVERED
    ),
)
REALISED = (
    Realised("reviews", "9ac1", 703, 412, Interval(0.09, 0.05, 0.13), Interval(0.1, 0.07, 0.125), LOST),
    # Of an episode that is over, and told by neither: a newer one asks for labels in the same slice.
    Realised("reviews", "5d0f", 703, 703, Interval(0.0, -0.02, 0.02), Interval(0.0, -0.01, 0.01)),
    Realised("default", "e001", 300, 5),
)
BATCHES = (
    BatchFacts("5d0f", "reviews", "annotation/5d0f", 703, texts=False, written=1767103601.0),
    BatchFacts("9ac1", "reviews", "annotation/9ac1", 703, texts=True, written=1767225001.0),
    BatchFacts("e001", "default", "annotation/e001", 300, texts=False, written=3.0),
    BatchFacts(
        'new "line"',
        'new\nline, "quote" and {brace=',
        "annotation/odd",
        480,
        texts=False,
        written=1767225501.0,
    ),
)
ALERTS = Alerts(
    limit=0.05,
    slices=DECISIONS,
    episodes=EPISODES,
    realised=REALISED,
    batches=BATCHES,
    batch_failures=1,
    history={
        "default": (
            HistoryPoint(1767225300.0, Interval(0.041, -1e-12, 0.065), inside_domains=True),
            HistoryPoint(1767225900.0, Interval(), inside_domains=False),
        )
    },
)
NOTIFIED = {
    "grafana": Notified(sent=3),
    "alertmanager": Notified(sent=12, failed=7, dropped=1, waiting=2),
}


@pytest.fixture
def report() -> Report:
    """Awkward on purpose: odd slice names, NaN, an empty histogram, large and tiny numbers."""
    return awkward()


def awkward() -> Report:
    """The report of the fixture, for a fixture of a wider scope."""
    return Report(
        time=1767226000.0,
        version="0.1.0",
        info=ModelInfo("sentiment", "2026-01-01T00:00:00Z-ab12", "all-MiniLM-L6-v2", "CPUExecutionProvider"),
        counts=Counts(
            received={"kafka": 123456789012, 'file:/data/"in".jsonl': 1},
            processed=123456788990,
            discarded={"late": 3, "tombstone": 4},
            dead_lettered={"not_json": 8, "wrong_type": 2},
            in_flight=6,
            truncated=2,
            unpaired={"request": 5, "response": 0},
            labels=7,
        ),
        heartbeat=1767225999.75,
        ready=True,
        windows=(
            LARGE,
            replace(WINDOW, ood_ratio={"knn": 1e-12, "depth": NAN}),
            replace(WINDOW, slice='quote " and \\ backslash'),
            replace(WINDOW, slice="new\nline, comma} and {brace="),
            replace(WINDOW, slice="lone \ud800 surrogate"),
            replace(WINDOW, slice="größe 🐟"),
            TOO_FEW,
        ),
        item_p_values={
            ("default", "knn"): Histogram(P_EDGES, (1, 0, 2, 3, 4), 5.0625),
            ("default", "depth"): Histogram.empty(P_EDGES),
            ("new\nline, comma} and {brace=", "knn"): Histogram(P_EDGES, (0, 0, 0, 0, 7), 7.0),
        },
        encode_seconds=Histogram.empty(SECONDS).observe(0.003).observe(0.1).observe(25.0),
        score_seconds=Histogram.empty(SECONDS),
        batch_records=Histogram.empty((1.0, 64.0, 1048576.0, float("inf"))).observe(64.0),
        estimation=ESTIMATION,
        source=SourceStatus(
            stopped="schema_change",
            lag={("traffic", "0"): 0, ("traffic", "12"): 98765432109},
            events={"revoked": 2, "lost": 0},
            responses={"200": 41, "503": 1},
            forwarded={"sent": 40, "dropped": 1},
            queue_bytes=67108865,
            paused=True,
        ),
        upkeep=Upkeep(checkpoint_failures=1, quarantined={"corrupt": 1}, reload_ok=False),
        alerts=ALERTS,
        notified=NOTIFIED,
    )


@pytest.fixture
def golden() -> Path:
    """The directory of the golden files."""
    return Path(__file__).parent / "golden"

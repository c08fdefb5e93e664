"""A fixed Report of awkward values, and the place of the golden files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.report import (
    Counts,
    DropEstimate,
    Estimation,
    Histogram,
    Interval,
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


@pytest.fixture
def report() -> Report:
    """Awkward on purpose: odd slice names, NaN, an empty histogram, large and tiny numbers."""
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
    )


@pytest.fixture
def golden() -> Path:
    """The directory of the golden files."""
    return Path(__file__).parent / "golden"

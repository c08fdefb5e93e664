"""Months in which nothing changes: how often a shift is seen all the same, and how often others raise alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from alarms_models import watched_models
from alarms_rivals import (
    ADWIN_TUNED,
    ADWIN_USUAL,
    FIXED_OWN,
    FIXED_TUNED,
    FIXED_USUAL,
    KSWIN_TUNED,
    KSWIN_USUAL,
    USUAL_THRESHOLD,
    adwin,
    alarms,
    begun,
    hourly_ratio,
    kswin,
    strict_kswin,
    tuned,
)
from alarms_runs import BUDGET, Run, calibrated_rows, estimator_of
from alarms_streams import MONTH, stationary
from workbench import say

from detectors.evidence import ALPHAS, most_flagged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alarms_models import Watched
    from alarms_rivals import Tuned
    from alarms_streams import Traffic

    from agent.encoder import Encoder

SEEN, PAGED = "ours: shift seen", "ours: paged"
# KSWIN makes a test an item, a quarter of a millisecond each: it gets six hours of every stream.
KSWIN_PANES = 36
TUNING, MEASURED = 11, 12


@dataclass(frozen=True)
class Quiet:
    """One model's month: alarms by contender, over how many slice-months each.

    `beyond` names the shares of its usual traffic that lie above what calibration allows for; `slices_seen` counts
    the slices with a false shift; a decision step takes `step` seconds.
    """

    model: str
    rows: int
    texts: int
    alarms: dict[str, int]
    months: dict[str, float]
    beyond: tuple[str, ...]
    slices_seen: int
    step: float


def beyond(watched: Watched) -> tuple[str, ...]:
    """Where more of the usual traffic has p <= alpha than the bets take for possible."""
    rows = calibrated_rows(watched)
    return tuple(
        f"{name} at {alpha}"
        for alpha in ALPHAS
        for (name, size), share in zip(rows.items(), watched.flagged(alpha), strict=True)
        if size and share > most_flagged(size, alpha)
    )


def quiet(watched: Watched, settings: Tuned | None, panes: int, seed: int) -> Quiet:
    """A month of usual traffic in every slice; with `settings` the others are beside ours."""
    traffics = stationary(panes, watched.usual, np.random.default_rng((MEASURED, seed)))
    outcome = Run(watched, estimator_of(watched), (MEASURED, seed)).over(traffics, 1)
    counts = {
        SEEN: sum(len(each.seen) for each in outcome.slices.values()),
        PAGED: len(outcome.episodes),
    }
    month = len(traffics) * panes / MONTH
    months = dict.fromkeys(counts, month)
    if settings is not None:
        counts |= rivals_alarms(watched, traffics, settings)
        day = len(traffics) * min(panes, KSWIN_PANES) / MONTH
        months |= {name: day if "KSWIN" in name else month for name in counts}
    return Quiet(
        model=watched.name,
        rows=max(calibrated_rows(watched).values()),
        texts=len(watched.usual),
        alarms=counts,
        months=months,
        beyond=beyond(watched),
        slices_seen=sum(bool(each.seen) for each in outcome.slices.values()),
        step=outcome.steps / outcome.stepped,
    )


def rivals_alarms(watched: Watched, traffics: Sequence[Traffic], settings: Tuned) -> dict[str, int]:
    """Alarms over all slices."""
    place = primary_of(watched)
    values = [each.p(place) for each in traffics]
    ratios = [hourly_ratio(each, place) for each in traffics]
    days = [each.p(place)[: each.items(0, KSWIN_PANES)] for each in traffics]
    thresholds = {
        FIXED_USUAL: USUAL_THRESHOLD,
        FIXED_TUNED: settings.threshold,
        FIXED_OWN: settings.own_threshold[watched.name],
    }
    return {
        ADWIN_USUAL: sum(len(alarms(adwin(2e-3), each)) for each in values),
        ADWIN_TUNED: sum(len(alarms(adwin(settings.delta), each)) for each in values),
        KSWIN_USUAL: sum(len(alarms(kswin(), each)) for each in days),
        KSWIN_TUNED: sum(len(alarms(strict_kswin(settings.alpha), each)) for each in days),
        **{name: sum(len(begun(ratio > most)) for ratio in ratios) for name, most in thresholds.items()},
    }


def settings_of(models: Sequence[Watched], panes: int) -> Tuned:
    """The others tuned on a month of usual traffic of its own draw."""
    say("tuning the others")
    values, ratios = {}, {}
    for number, watched in enumerate(models):
        traffics = stationary(panes, watched.usual, np.random.default_rng((TUNING, number)))
        place = primary_of(watched)
        values[watched.name] = [each.p(place) for each in traffics]
        ratios[watched.name] = [hourly_ratio(each, place) for each in traffics]
    return tuned(values, ratios, BUDGET)


def primary_of(watched: Watched) -> int:
    """Which detector is the primary one."""
    return list(watched.reference.detectors).index(watched.reference.primary)


def splits(encoder: Encoder, most_splits: int, most: int | None, panes: int) -> Iterator[Quiet]:
    """Ours alone, with every model fitted and calibrated anew on other rows of its source."""
    for seed in range(1, most_splits + 1):
        for number, watched in enumerate(watched_models(encoder, seed, most)):
            yield quiet(watched, None, panes, 100 * seed + number)

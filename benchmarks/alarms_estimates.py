"""What the estimate says of each change once it is all of the traffic: what decides whether it is paged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from alarms_runs import MAX_DROP, estimator_of
from alarms_streams import LONG, Traffic
from workbench import markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alarms_models import Watched

    from agent.report import DropEstimate

MIDDLE = 2  # the slice with 50 items a pane
BINS = (-1.0, 0.01, 0.05, 0.08, 0.12, 0.2, 1.0)


@dataclass(frozen=True)
class Judged:
    """One change as the long window shows it: the drop by its labels, and the estimate."""

    drop: float
    estimate: DropEstimate

    @property
    def error(self) -> float:
        """Estimated less real."""
        return self.estimate.drop.estimate - self.drop


def judged(watched: Watched) -> Iterator[Judged]:
    """A long window of each change, and of the usual traffic."""
    estimator = estimator_of(watched)
    everything = np.ones(LONG)
    for number, (change, pool) in enumerate(watched.changes.items()):
        draw = np.random.default_rng((4, number))
        traffic = Traffic.drawn(MIDDLE, (watched.usual, pool), everything, draw)
        yield Judged(watched.drop(change), estimator.of_window(*traffic.window(LONG, LONG, draw)))


def estimates_table(rows: Sequence[Judged]) -> str:
    """By the points lost: how far off, and which would be paged by their bound or as outside the domains."""
    lines = []
    for low, high in pairwise(BINS):
        chosen = [row for row in rows if low < row.drop <= high and not row.estimate.reason]
        if chosen:
            title = f"up to {100 * high:.0f}" if low < 0 else f"{100 * low:.0f} to {100 * high:.0f}"
            halves = [(row.estimate.drop.high - row.estimate.drop.low) / 2 for row in chosen]
            held = [row.estimate.drop.low <= row.drop <= row.estimate.drop.high for row in chosen]
            lines.append(
                (
                    title,
                    len(chosen),
                    f"{100 * np.median([row.drop for row in chosen]):.1f}",
                    f"{100 * np.median([row.estimate.drop.estimate for row in chosen]):.1f}",
                    f"{100 * np.mean(np.abs([row.error for row in chosen])):.1f}",
                    f"{100 * np.median(halves):.1f}",
                    f"{100 * np.mean(held):.0f} %",
                    sum(row.estimate.drop.estimate > MAX_DROP for row in chosen),
                    sum(row.estimate.drop.low > MAX_DROP for row in chosen),
                    sum(not row.estimate.inside_domains for row in chosen),
                )
            )
    header = (
        "points lost",
        "changes",
        "lost, median",
        "estimated, median",
        "mean error",
        "half width",
        "covered",
        "estimate > 5",
        "lower bound > 5",
        "outside",
    )
    return markdown(header, lines)

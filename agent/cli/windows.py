"""The live table of windows: a line a closed window, under a heading that names the columns once.

The estimate of a window is made a little later, so it is a line of its own that names its window by its end.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from agent.alert_report import Kind, Outcome
from agent.cli.output import console, points
from agent.slices import UNTAGGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.alert_report import Episode
    from agent.report import DropEstimate, WindowEstimate, WindowReport

# Twice the share that items of the source would have: worth a colour.
NOTABLE = 0.10
OVER = {
    Outcome.RECOVERED: "the estimated drop is below the limit again",
    Outcome.RETURNED: "the traffic is like the source again",
    Outcome.SILENT: "there is no more traffic",
    Outcome.HARMLESS: "labels say that no more than you accept is lost",
    Outcome.MOVED: "another replica reads its records now",
    Outcome.SUPERSEDED: "the agent was started with another reference or source",
}


class WindowLines:
    """Prints windows as they close: the share of items with p <= 0.05 by detector, mean depth, and Q."""

    def __init__(self, detectors: Sequence[str]) -> None:
        self._detectors = tuple(detectors)
        self._headed = False
        self._reasons: dict[str, str] = {}
        self._alerted: set[str] = set()

    def __call__(self, report: WindowReport) -> None:
        """Print one window, in 80 columns."""
        self._head()
        start, tag = f"{_until(report.end)}{report.items:>6}", _tag(report.slice)
        if not report.enough:
            console.print(f"{start}  too few items for ratios{tag}", markup=False, soft_wrap=True)
            return
        ratios = "".join(_percent(report.ood_ratio[name]) for name in self._detectors)
        console.print(f"{start}{ratios}{report.depth_mean:>7.3f}{report.q:>6.2f}{escape(tag)}", soft_wrap=True)

    def estimated(self, made: WindowEstimate) -> None:
        """Print the estimate of one window; why there is none only when the reason is a new one for the slice."""
        estimate, before = made.estimate, self._reasons.get(made.slice)
        self._reasons[made.slice] = estimate.reason
        if estimate.reason and estimate.reason == before:
            return
        self._head()
        said = f"no estimate: {escape(estimate.reason)}" if estimate.reason else _lost(estimate)
        console.print(f"{_until(made.end)} {said}{escape(_tag(made.slice))}", soft_wrap=True)

    def decided(self, episode: Episode) -> None:
        """Print an episode that begins, becomes certain or ends."""
        about = f"{_tag(episode.slice)} since {_until(episode.since)}"
        if not episode.open:
            console.print(f"[bold green]ALERT OVER[/]{escape(about)}: {OVER[episode.outcome]}", soft_wrap=True)
            return
        again = "NOW CERTAIN: " if episode.id in self._alerted else ""
        self._alerted.add(episode.id)
        lost = points(episode.drop.estimate, episode.drop.low, episode.drop.high)
        beyond = "unlike every labelled domain, " if episode.outside else ""
        why = f"accuracy drop {lost} points{'' if episode.kind is Kind.DROP else f', {beyond}nobody can tell'}"
        labels = f"{episode.needed:,} labels are asked for."
        console.print(f"[bold red]ALERT[/]{escape(about)}: {again}{why}. {labels}", soft_wrap=True)

    def _head(self) -> None:
        if self._headed:
            return
        self._headed = True
        console.print("Percent of items out of distribution, by detector: 5 is normal.")
        console.print("D: mean depth. Q: 0.5 is as deep as the source, 0 is far outside it.")
        names = "".join(f"{name[:5]:>6}" for name in self._detectors)
        console.print(f"[bold]{'until':<5}{'items':>6}{names}{'D':>7}{'Q':>6}[/]", soft_wrap=True)


def _until(end: float) -> str:
    return f"{datetime.fromtimestamp(end, UTC):%H:%M}"


def _tag(name: str) -> str:
    return "" if name == UNTAGGED else f"  {name}"


def _lost(estimate: DropEstimate) -> str:
    """The drop: `+4.1 [+1.9, +6.5] points`, in red where even its lower bound is a loss."""
    numbers = points(estimate.drop.estimate, estimate.drop.low, estimate.drop.high)
    shown = f"[bold red]{numbers}[/]" if estimate.drop.low > 0 else numbers
    unlike = "" if estimate.inside_domains else ", unlike every domain"
    return f"accuracy drop ({estimate.level:.0%}): {shown} points{unlike}"


def _percent(ratio: float) -> str:
    text = f"{100 * ratio:>6.1f}"
    return f"[bold red]{text}[/]" if ratio >= NOTABLE else text

"""The live table of windows: a line a closed window, under a heading that names the columns once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from agent.cli.output import console
from agent.slices import UNTAGGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.report import WindowReport

# Twice the share that items of the source would have: worth a colour.
NOTABLE = 0.10


class WindowLines:
    """Prints windows as they close: the share of items with p <= 0.05 by detector, mean depth, and Q."""

    def __init__(self, detectors: Sequence[str]) -> None:
        self._detectors = tuple(detectors)
        self._headed = False

    def __call__(self, report: WindowReport) -> None:
        """Print one window, in 80 columns."""
        if not self._headed:
            self._headed = True
            console.print("Percent of items out of distribution, by detector: 5 is normal.")
            console.print("D: mean depth. Q: 0.5 is as deep as the source, 0 is far outside it.")
            names = "".join(f"{name[:5]:>6}" for name in self._detectors)
            console.print(f"[bold]{'until':<5}{'items':>6}{names}{'D':>7}{'Q':>6}[/]", soft_wrap=True)
        end = datetime.fromtimestamp(report.end, UTC).strftime("%H:%M")
        start, tag = f"{end:<5}{report.items:>6}", "" if report.slice == UNTAGGED else f"  {report.slice}"
        if not report.enough:
            console.print(f"{start}  too few items for ratios{tag}", markup=False, soft_wrap=True)
            return
        ratios = "".join(_percent(report.ood_ratio[name]) for name in self._detectors)
        console.print(f"{start}{ratios}{report.depth_mean:>7.3f}{report.q:>6.2f}{escape(tag)}", soft_wrap=True)


def _percent(ratio: float) -> str:
    text = f"{100 * ratio:>6.1f}"
    return f"[bold red]{text}[/]" if ratio >= NOTABLE else text

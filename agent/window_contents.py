"""What a window is made of: its panes as they crossed over from the loop, and those panes merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from agent.panes import Tally
from agent.report import DropEstimate
from agent.sample import Sample

if TYPE_CHECKING:
    from agent.panes import Pane


@dataclass(frozen=True)
class Window:
    """One slice's window with start <= time < end (epoch seconds), whole. The estimator sees nothing else."""

    slice: str
    window: str
    start: int
    end: int
    tally: Tally
    sample: Sample


# Says, without labels, how much accuracy is lost in a window, or why there is no saying. Pure: it may run in any
# thread, and must leave the window's arrays as they are, for panes share them.
Estimate = Callable[[Window], DropEstimate]


@dataclass(frozen=True)
class EndedWindow:
    """One slice's window that has ended, as its panes. Frozen all through, so any thread may hold on to it."""

    slice: str
    window: str
    start: int
    end: int
    panes: tuple[Pane, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Which of the newest windows this is."""
        return self.slice, self.window

    @property
    def tally(self) -> Tally:
        """The counts of its panes together. Cheap beside `merged`, which also merges the samples."""
        return reduce(Tally.merge, (pane.tally for pane in self.panes))

    @property
    def items(self) -> int:
        """How many items it holds."""
        return sum(pane.tally.items for pane in self.panes)

    def since(self, moment: float) -> EndedWindow:
        """The part of it that begins at or after this moment."""
        if moment <= self.start:
            return self
        panes = tuple(pane for pane in self.panes if pane.start >= moment)
        return replace(self, start=int(moment), panes=panes)

    def merged(self) -> Window:
        """The panes as one, newly made at each call. Takes milliseconds: not for the loop's thread."""
        sample = reduce(Sample.merge, (pane.sample for pane in self.panes))
        return Window(self.slice, self.window, self.start, self.end, self.tally, sample)

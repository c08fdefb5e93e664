"""A state of real parts without a model, traffic for it, and what of it must survive.

`python -m tests.agent.state_bench FILE` writes the golden state of the schema version in use.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.checkpoints import Checkpoints
from agent.config import WindowsConfig
from agent.duplicates import Seen
from agent.pairing import Half, Pairing
from agent.panes import Pane, Tally
from agent.payloads.contract import Kind
from agent.records import Label
from agent.sample import Sample
from agent.slices import Slices
from agent.state_store.pane_blobs import pack
from agent.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).with_name("golden_state")
HOUR = 1_767_225_600
OWNER = "reference a"
WINDOWS = WindowsConfig(pane=60, short=180, long=360, min_items=3)


class Parts:
    """What the store needs of a state."""

    def __init__(self, remember: int = 50) -> None:
        self.windows = Windows(WINDOWS, ("negative", "positive"), ("knn", "depth"))
        self.slices = Slices(9)
        self.positions: dict[str, int] = {}
        self.pairing = Pairing(wait=300.0, most=1000)
        self.seen = Seen(remember)
        self.labels: list[Label] = []
        self.resumed = False
        self.last_checkpoint = 0.0  # schema 2 noted it here
        self.confirm()

    def confirm(self) -> None:
        """The source has taken note of what is here, as in `State`."""
        self.confirmed = (
            self.windows.snapshot(),
            dict(self.positions),
            self.pairing.snapshot(),
            self.seen.snapshot(),
        )

    def roll_back(self) -> None:
        """Go back to what the source has taken note of, as in `State`."""
        windows, positions, halves, seen = self.confirmed
        self.windows.roll_back(windows)
        self.positions = dict(positions)
        self.pairing.restore(halves)
        self.seen.restore(seen)
        self.labels = []

    def take_labels(self) -> Sequence[Label]:
        """The labels since the last call."""
        taken, self.labels = self.labels, []
        return taken

    def resume(self) -> None:
        """Note that it was called."""
        self.resumed = True
        self.confirm()


def pane(name: str, start: int, items: int = 4, width: int = 3) -> Pane:
    """A pane whose numbers follow from its place and size alone, without chance."""
    ids = [f"{name}-{start}-{row} 🐟" for row in range(items)]
    steps = np.arange(items * width, dtype=np.float64).reshape(items, width) / 8 + start % 7
    counts = np.arange(15, dtype=np.int64) + items
    tally = Tally(
        items, 1, counts[:2], np.stack([counts, counts + 1]), counts[:2] << 40, counts, 1 << 50, -3, 7, counts[:3]
    )
    return Pane(name, start, tally, Sample.of(ids, steps, steps[:, :2], steps[:, :1], size=8))


def step(parts: Parts, number: int, items: int = 4) -> None:
    """One more batch: two panes, a move of every partition, a half that comes and one that goes, ids, a label."""
    for name in ("tenant-a", "größe 🐟"):
        parts.slices.name(name)
        if parts.windows.admit(HOUR + 60 * number):
            parts.windows.add([pane(name, HOUR + 60 * number, items)])
    parts.windows.close()
    parts.positions |= {"events-0": 100 * number, f"events-{number % 3}": 7 * number}
    half = Half(Kind.REQUEST, f"key \0 \ud800 {number}", {"text": "été 🐟"}, HOUR + number / 3, "events-0")
    parts.pairing.join(half, 0.0)
    if number % 2:
        parts.pairing.join(
            Half(Kind.RESPONSE, f"key \0 \ud800 {number - 1}", {}, HOUR + number / 3, "events-1"), 0.0
        )
    for row in range(7):
        parts.seen.add(f"{number} {row}")
    parts.labels.append(Label(f"event-{number}", "negative", HOUR + number / 7))


def filled(*numbers: int) -> Parts:
    """A state after these steps."""
    parts = Parts()
    for number in numbers:
        step(parts, number)
    return parts


def held(parts: Parts) -> dict[str, Any]:
    """All of a state that a checkpoint gives back, in values that `==` compares exactly, order included."""
    return {
        "panes": {key: pack(pane) for key, pane in sorted(parts.windows.panes.items())},
        "positions": dict(sorted(parts.positions.items())),
        "slices": parts.slices.known,
        "sealed": parts.windows.sealed_until,
        "halves": parts.pairing.snapshot(),
        "seen": parts.seen.snapshot(),
    }


def golden() -> Parts:
    """What every golden state holds, as far as its schema version can."""
    return filled(0, 1, 2, 3)


if __name__ == "__main__":
    with closing(Checkpoints(Path(sys.argv[1]), 10, OWNER, lambda: float(HOUR))) as written:
        written.save(golden())

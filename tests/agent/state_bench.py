"""A state of real parts without a model, traffic for it, and what of it must survive.

`python -m tests.agent.state_bench FILE` writes the golden state of the schema version in use.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.alert_config import AnnotationConfig
from agent.annotation.texts import KeptTexts
from agent.checkpoints import Checkpoints
from agent.config import WindowsConfig
from agent.decision import Decision
from agent.duplicates import Seen
from agent.interval import Interval
from agent.pairing import Half, Pairing
from agent.panes import Pane, Tally
from agent.payloads.contract import Kind
from agent.records import Label, Record
from agent.report import DropEstimate, WindowEstimate
from agent.sample import Sample
from agent.slices import Slices
from agent.state_store.decided import episode_row
from agent.state_store.pane_blobs import pack
from agent.watch import Rules
from agent.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.watch import Watch

GOLDEN = Path(__file__).with_name("golden_state")
HOUR = 1_767_225_600
OWNER = "reference a"
TEXTS = AnnotationConfig(path=Path("batches"), texts=True)
WINDOWS = WindowsConfig(pane=60, short=180, long=360, min_items=3)


RULES = Rules(0.05, 1.0, 0.03, WINDOWS.pane, WINDOWS.short, WINDOWS.long)
HARM = DropEstimate(500, 0.9, "", Interval(0.2, 0.1, 0.3), Interval(0.7, 0.6, 0.8), inside_domains=True)


class Parts:
    """What the store needs of a state."""

    def __init__(self, remember: int = 50) -> None:
        self.windows = Windows(WINDOWS, ("negative", "positive"), ("knn", "depth"))
        self.slices = Slices(9)
        self.positions: dict[str, int] = {}
        self.pairing = Pairing(wait=300.0, most=1000)
        self.seen = Seen(remember)
        self.decision = Decision(RULES, "a model", (50, 60))
        self.texts = KeptTexts(TEXTS, clock=lambda: float(HOUR))
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
            self.decision.decided,
        )

    def roll_back(self) -> None:
        """Go back to what the source has taken note of, as in `State`."""
        windows, positions, halves, seen, decided = self.confirmed
        self.windows.roll_back(windows)
        self.positions = dict(positions)
        self.pairing.restore(halves)
        self.seen.restore(seen)
        self.decision.roll_back(decided, float(HOUR))
        self.texts.prune(self.windows.panes.values())
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
    """One more batch: two panes, a move of every partition, a half that comes and one that goes, ids, a label.

    Every third one also an estimate of harm, which begins an episode.
    """
    for name in ("tenant-a", "größe 🐟"):
        parts.slices.name(name)
        if parts.windows.admit(HOUR + 60 * number):
            made = pane(name, HOUR + 60 * number, items)
            parts.windows.add([made])
            sampled = made.sample.ids.tolist()[:2]
            parts.texts.keep([Record(each, f"text of {each}", 0.0) for each in sampled], [name] * 2, [made])
    parts.windows.close()
    parts.decision.sealed(parts.windows.take_sealed(), float(HOUR))
    if number % 3 == 2:
        for window in ("long", "short"):
            parts.decision.estimated(
                WindowEstimate("größe 🐟", window, HOUR + 60 * number, 0.0, HARM), float(HOUR)
            )
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
        "watches": {name: rounded(watch) for name, watch in sorted(parts.decision.decided.watches.items())},
        "episodes": [episode_row(episode) for episode in parts.decision.decided.episodes],
        "texts": dict(parts.texts.kept),
    }


def rounded(watch: Watch) -> object:
    """All of it, without the last digits of logarithms, in which processors differ."""
    return (
        watch.end,
        watch.began,
        watch.asked,
        watch.evidence.logs.round(9).tolist(),
        watch.evidence.since.tolist(),
    )


# What a state of each schema version could not hold.
UNDECIDED = {"watches": {}, "episodes": [], "texts": {}}
LACKS = {2: {"halves": (), "seen": (), **UNDECIDED}, 3: UNDECIDED, 4: {}}


def golden() -> Parts:
    """What every golden state holds, as far as its schema version can."""
    return filled(0, 1, 2, 3)


if __name__ == "__main__":
    with closing(Checkpoints(Path(sys.argv[1]), 10, OWNER, lambda: float(HOUR))) as written:
        written.save(golden())

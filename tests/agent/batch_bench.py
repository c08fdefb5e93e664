"""Annotation batches of the synthetic world, drawn and written as the agent does it, and labels for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agent.alert_config import AnnotationConfig
from agent.annotation.draw import Drawing, Question
from agent.annotation.files import read_batch, read_items, write
from agent.annotation.labels import append_labels
from agent.annotation.texts import NoTexts
from agent.interval import Interval
from agent.panes import Tally
from agent.records import Label
from agent.report import DropEstimate
from agent.sample import Sample
from agent.window_contents import Window
from tests.agent.panel_bench import outputs_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from agent.reference import Reference
    from tests.agent.panel_bench import Drawn

LEVEL = 0.9
NOW = 1_790_000_000.0


def write_batch(  # noqa: PLR0913 - what a batch is made of
    root: Path,
    reference: Reference,
    items: Drawn,
    *,
    labels: int,
    episode: str = "abc",
    slice_: str = "shop",
    estimate: Interval | None = None,
    dissimilar: int = 20,
) -> Path:
    """The directory of a batch that asks for so many labels of these items, whose ids are `item-<row>`."""
    outputs = outputs_of(reference, items)
    ids = [f"item-{row}" for row in range(len(items.labels))]
    sample = Sample.of(ids, outputs.embedding, outputs.logits)
    none = np.zeros(1, np.int64)
    tally = Tally(len(ids), 0, none, none[np.newaxis], none, none, 0, 0, 0, none)
    config = AnnotationConfig(path=root, dissimilar=dissimilar)
    question = Question(episode, "drop", labels, 0.03)
    window = Window(slice_, "long", 0, 21_600, tally, sample)
    drop = Interval() if estimate is None else estimate
    accuracy = Interval(*(0.9 - value for value in (drop.estimate, drop.high, drop.low)))
    told = DropEstimate(len(ids), LEVEL, "", drop, accuracy, inside_domains=True)
    return write(root, Drawing(reference, config, NoTexts()).make(question, window, told, NOW))


def truth_of(reference: Reference, items: Drawn, directory: Path) -> dict[str, str]:
    """The true label of each item that the batch asks for."""
    asked = read_items(directory, read_batch(directory))
    return {item.id: reference.labels[items.labels[int(item.id.removeprefix("item-"))]] for item in asked}


def bring(directory: Path, labels: Iterable[tuple[str, str]], time: float = NOW + 60) -> None:
    """Append labels to a batch."""
    append_labels(directory, [Label(name, label, time) for name, label in labels])

"""A batch on demand: drawn from the newest long window that an agent's state holds, without an episode."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from agent.annotation.batch import ON_DEMAND
from agent.annotation.draw import Drawing, Question
from agent.annotation.files import write
from agent.assembly import owner_of, texts_of
from agent.bundle import load_reference
from agent.errors import UsageError
from agent.estimation import Estimator
from agent.state_store.copy import read_copy
from agent.windows import Windows
from detectors.strata import labels_needed

if TYPE_CHECKING:
    from pathlib import Path

    from agent.alert_config import AnnotationConfig
    from agent.config import RunConfig


@dataclass(frozen=True)
class Wanted:
    """Of which slice, and how many items; None leaves it to what there is, and to `alerts.precision`."""

    slice: str | None = None
    items: int | None = None


def draw_now(config: RunConfig, annotation: AnnotationConfig, wanted: Wanted) -> Path:
    """Draw a batch and give its directory; asked again about the same window and number, the one that is there.

    UsageError if the agent keeps no state, or has no window that has ended.
    """
    if config.state is None:
        raise UsageError(
            "state: missing: --now draws from what a running agent has saved. Add `state: {path: …}`."
        )
    reference = load_reference(config.reference)
    content = read_copy(config.state.path, owner_of(config, reference))
    windows = Windows(config.windows, reference.labels, tuple(reference.detectors))
    windows.restore(content.panes, content.sealed_until)
    name = _slice(wanted.slice, sorted({pane.slice for pane in content.panes}))
    ended = windows.newest_long(name)
    if ended is None:
        raise UsageError(f"slice {name!r} has no window that has ended yet. Try again when the next pane is over.")
    texts = texts_of(config)
    texts.restore(content.texts)
    now = time.time()
    texts.expire(now)
    window = ended.merged()
    estimate = Estimator(reference, config.windows.min_items).of_window(window.tally, window.sample)
    precision, bounds = config.alerts.precision, (estimate.accuracy.low, estimate.accuracy.high)
    needed = labels_needed(bounds, precision)
    most = wanted.items or needed
    asked = f"{reference.model}\0{reference.id}\0{name}\0{ended.end}\0{window.tally.items}\0{most}"
    episode = f"asked-{sha256(asked.encode('utf-8', 'replace')).hexdigest()[:12]}"
    question = Question(episode, ON_DEMAND, needed, precision, most)
    try:
        return write(annotation.path, Drawing(reference, annotation, texts).make(question, window, estimate, now))
    except OSError as error:
        raise UsageError(f"annotation.path: {annotation.path}: cannot be written: {error.strerror}") from error


def _slice(wanted: str | None, known: list[str]) -> str:
    if not known:
        raise UsageError("the state holds no items yet. Try again when the agent has read some.")
    if wanted is None and len(known) == 1:
        return known[0]
    listed = ", ".join(map(repr, known))
    if wanted is None:
        raise UsageError(f"--slice is missing: which of {listed}?")
    if wanted not in known:
        raise UsageError(f"--slice {wanted!r}: the state holds no items of it. It holds {listed}.")
    return wanted

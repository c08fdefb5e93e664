"""What the tests of annotation batches work with: windows of made-up items, a question, a written batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.alert_config import AnnotationConfig
from agent.alert_report import Episode, Kind
from agent.annotation.draw import Drawing, Question
from agent.annotation.texts import KeptTexts, NoTexts
from agent.interval import Interval
from agent.records import Record
from agent.reference import TaskIdentity
from agent.report import DropEstimate
from agent.summary import Summary
from agent.window_contents import EndedWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agent.annotation.draw import Made
    from agent.annotation.texts import Texts
    from agent.panes import Pane
    from agent.reference import Reference
    from agent.scorer import Scored

    Score = Callable[[Sequence[Record]], Scored]

NOW = 1_700_000_000.0
EPISODE = "0a1b2c3d4e5f6071"
ESTIMATE = DropEstimate(300, 0.9, "", Interval(0.08, 0.06, 0.11), Interval(0.8, 0.77, 0.82), inside_domains=True)


def config_of(path: Path, **changes: Any) -> AnnotationConfig:  # noqa: ANN401 - any of its keys
    """The part `annotation` of a configuration."""
    return AnnotationConfig(path=path, **changes)


def records_of(count: int, name: str = "item", start: float = 0.0) -> list[Record]:
    """Records with an id and a text of their own, one a second."""
    return [Record(f"{name}-{row}", f"the text of {name}-{row}", start + row) for row in range(count)]


def panes_of(
    reference: Reference, score: Score, records: Sequence[Record], slice_: str = "all", size: int = 2000
) -> list[Pane]:
    """The panes of one minute that an agent makes of these records."""
    return Summary(reference, 60, size).panes(records, [slice_] * len(records), score(records))


def ended(panes: Sequence[Pane], slice_: str = "all") -> EndedWindow:
    """The long window of these panes."""
    return EndedWindow(slice_, "long", 0, 3600, tuple(panes))


def as_tokens(reference: Reference, window: EndedWindow) -> tuple[Reference, EndedWindow]:
    """The same reference and window as those of a sequence labeller, which has no logits of whole texts."""
    panes = [
        replace(
            pane,
            sample=replace(
                pane.sample,
                logits=pane.sample.logits[:, :0],
                confidence=pane.sample.confidences(1.0).astype("float32"),
            ),
        )
        for pane in window.panes
    ]
    return replace(reference, task=TaskIdentity("table", kind="tokens")), replace(window, panes=tuple(panes))


def episode_of(name: str = EPISODE, slice_: str = "all", needed: int = 60) -> Episode:
    """An episode that has just begun."""
    return Episode(name, slice_, Kind.DROP, NOW - 900, NOW, ESTIMATE.drop, 300, needed)


def texts_of(reference: Reference, score: Score, path: Path, count: int = 300) -> tuple[KeptTexts, EndedWindow]:
    """A window of so many items, and their texts, kept."""
    texts = KeptTexts(config_of(path, texts=True), clock=lambda: NOW)
    records = records_of(count)
    panes = panes_of(reference, score, records)
    texts.keep(records, ["all"] * count, panes)
    return texts, ended(panes)


def made_of(
    reference: Reference,
    window: EndedWindow,
    config: AnnotationConfig,
    texts: Texts | None = None,
    **changes: Any,  # noqa: ANN401 - any part of a question
) -> Made:
    """A batch drawn from this window; `changes` are parts of the question."""
    question = replace(Question(EPISODE, "drop", 60, 0.03), **changes)
    drawing = Drawing(reference, config, NoTexts() if texts is None else texts)
    return drawing.make(question, window.merged(), ESTIMATE, NOW)

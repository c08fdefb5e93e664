"""The desk where the loop has batches written and labels filed. Nothing here raises into the loop."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import structlog

from agent.alert_report import Asked
from agent.annotation.draw import Drawing, Question
from agent.annotation.files import read_items, write
from agent.annotation.formats import item_facts, json_lines
from agent.annotation.labels import append_labels
from agent.annotation.shelf import Filed, Shelf
from agent.annotation.term import Term
from agent.errors import LeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from agent.alert_report import Episode, Realised
    from agent.records import Label
    from agent.report import DropEstimate
    from agent.window_contents import EndedWindow

    Complain = Callable[[Path, Exception], None]
    Answers = Callable[[Collection[str], Complain], tuple[Realised, ...]]

# How often the directory is looked at again, and what failed is tried again (seconds).
EVERY = 60.0
# What a crash left half-written is removed when it is this old (seconds): another agent may be writing beside.
STALE = 3600.0
# Batches and labels that wait for a disk that refuses them. A batch holds a window: the loop asks again for more.
MOST_WAITING, MOST_LABELS = 5, 100_000


@dataclass(frozen=True)
class _Asking:
    """A batch to write."""

    episode: Episode
    window: EndedWindow
    estimate: DropEstimate | None


def no_answers(asking: Collection[str], complain: Complain) -> tuple[Realised, ...]:
    """Of nothing: where nobody knows what labels mean."""
    del asking, complain
    return ()


class Annotation:
    """Writes annotation batches, keeps what comes back with them, and forgets their texts in time.

    Used from the loop's thread; `lines` and `dissimilar` from any.
    """

    def __init__(
        self,
        drawing: Drawing,
        precision: float,
        answers: Answers = no_answers,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`precision` is the half width that the labels should give. The batches on disk are looked at.

        `answers` says what the labels of the newest batches, and of these episodes', come to now, at the cost of
        what changed, and complains of a batch that cannot be read.
        """
        self._drawing = drawing
        self._precision = precision
        self._answers = answers
        self._clock = clock
        self._keep = drawing.config.keep
        self._shelf = Shelf(drawing.config.path, drawing.reference.model)
        self._waiting: dict[str, _Asking] = {}
        self._unfiled: list[Label] = []
        self._complaints: set[tuple[str, str, str]] = set()
        self._looked = float("-inf")
        self._told = Asked()
        self._tried(lambda: self._shelf.look(self._unreadable), "look")
        self._tell()

    def ask(self, episode: Episode, window: EndedWindow, estimate: DropEstimate | None) -> None:
        """Write the batch of this episode, unless there is one already; later, if it cannot be written now."""
        self._write(_Asking(episode, window, estimate))
        self._tell()

    def lacks(self, episode: str) -> bool:
        """Whether there is no batch of this episode, nor one that waits for a disk."""
        return episode not in self._shelf.filed and episode not in self._waiting

    def change(self, precision: float) -> None:
        """Let labels give an interval of this half width, in batches from the next one on."""
        self._precision = precision

    def take(self, labels: Sequence[Label]) -> None:
        """File those labels that belong to items of the newest batches, or of open episodes'. The last counts."""
        # Before the first look it is not known which episodes are open.
        if labels and not (self._file(labels) and isfinite(self._looked)):
            self._unfiled = [*self._unfiled, *labels][-MOST_LABELS:]

    def tidy(self, now: float, asking: Collection[str] = ()) -> None:
        """Delete texts that are too old, try again what failed, and see what labels now say. Soon done.

        `asking` are the episodes that are open: their batches count however many are newer.
        """
        if not 0 <= now - self._looked < EVERY:
            self._looked = now
            self._look(now, asking)
        term = Term(now, self._keep)
        for filed in self._shelf.with_texts_over(term):
            self._tried(partial(self._shelf.expire, filed, term), "expire", filed.batch.episode)
        self._tried(lambda: self._read_answers(asking), "answers")
        self._tell()

    def told(self) -> Asked:
        """What was asked, the newest first, and what came back. Costs nothing."""
        return self._told

    def acquitted(self, max_drop: float) -> Iterable[str]:
        """The episodes whose labels say that no more than this is lost."""
        return [each.episode for each in self._told.realised if each.answer(max_drop) == "harmless"]

    def lines(self, episode: str, *, texts: bool) -> bytes | None:
        """The items of a batch as JSON Lines, with their texts only if asked for; None where there is no batch."""
        filed = self._shelf.filed.get(episode)
        if filed is None:
            return None
        try:
            items = read_items(filed.directory, filed.batch)
        except LeadlineError:  # removed meanwhile, or changed by hand
            return None
        return json_lines(items if texts else [item.without_text() for item in items])

    def dissimilar(self, episode: str) -> list[dict[str, Any]]:
        """The items of a batch that are least like the source, the least first; none if there is no such batch.

        Costs nothing: for a page that is loaded again and again.
        """
        filed = self._shelf.filed.get(episode)
        return [item_facts(item) for item in filed.least_alike] if filed else []

    def _write(self, asking: _Asking) -> None:
        name = asking.episode.id
        if self._tried(lambda: self._written(asking), "write", name):
            self._waiting.pop(name, None)
            return
        self._told = replace(self._told, failures=self._told.failures + 1)
        if len(self._waiting) < MOST_WAITING:
            self._waiting[name] = asking

    def _written(self, asking: _Asking) -> None:
        episode = asking.episode
        if episode.id not in self._shelf.filed:
            question = Question(episode.id, str(episode.kind), episode.needed, self._precision)
            made = self._drawing.make(question, asking.window.merged(), asking.estimate, self._clock())
            self._shelf.put(Filed.read(write(self._drawing.config.path, made)))

    def _file(self, labels: Sequence[Label]) -> bool:
        """Whether every batch that has these items now has these labels."""
        filed = True
        for each in self._shelf.newest:
            own = [label for label in labels if label.id in each.ids]
            if own:
                append = partial(append_labels, each.directory, own)
                filed = self._tried(append, "labels", each.batch.episode) and filed
        return filed

    def _look(self, now: float, asking: Collection[str]) -> None:
        self._tried(lambda: self._shelf.sweep(now - STALE), "sweep")
        self._tried(lambda: self._shelf.look(self._unreadable, asking), "look")
        for each in list(self._waiting.values()):
            self._write(each)
        if self._unfiled and self._file(self._unfiled):
            self._unfiled = []

    def _read_answers(self, asking: Collection[str]) -> None:
        self._told = replace(self._told, realised=self._answers(asking, self._unheard))

    def _tell(self) -> None:
        self._told = replace(self._told, batches=tuple(each.facts for each in self._shelf.newest))

    def _tried(self, action: Callable[[], None], what: str, name: str = "") -> bool:
        """Whether it went well. What breaks is logged once, until it works again: records go on meanwhile."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(what, name, error)
            return False
        self._complaints = {each for each in self._complaints if each[:2] != (what, name)}
        return True

    def _unreadable(self, path: Path, error: Exception) -> None:
        self._complain("read", path.name, error)

    def _unheard(self, path: Path, error: Exception) -> None:
        self._complain("answers", path.name, error)

    def _complain(self, what: str, name: str, error: Exception) -> None:
        """Log where it broke. Not the message of errors that are not ours: a text might be in it."""
        complaint = (what, name, type(error).__name__)
        if complaint in self._complaints:
            return
        self._complaints.add(complaint)
        last = extract_tb(error.__traceback__)[-1:]
        where = "".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in last)
        said = str(error) if isinstance(error, LeadlineError | OSError) else type(error).__name__
        structlog.get_logger().error("annotation_failed", what=what, episode=name, error=said, where=where)

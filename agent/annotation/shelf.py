"""The batches of one model that lie on disk: which of them matter now, and when their texts are too old."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.alert_report import BatchFacts
from agent.annotation.catalogue import Catalogue, mark_of, newest
from agent.annotation.files import BATCH, ITEMS, leftovers, read_batch, read_items, rewrite
from agent.errors import ArtefactError, LeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from agent.annotation.batch import Batch, Item
    from agent.annotation.catalogue import Mark
    from agent.annotation.term import Term

# Batches that are told about and take labels from the stream: the newest, and those of open episodes. `annotate
# import` serves the others.
NEWEST = 20


@dataclass(frozen=True)
class Filed:
    """A batch on disk. `ids` are those of its items, `kept` is when the first and the last of its texts were kept.

    `least_alike` are the items that are least like the source, the least first. `marks` are those of its files.
    """

    directory: Path
    batch: Batch
    ids: frozenset[str]
    kept: tuple[float, ...]
    least_alike: tuple[Item, ...]
    marks: tuple[Mark, Mark]

    @classmethod
    def read(cls, directory: Path) -> Filed:
        """The batch of this directory. ArtefactError if it is damaged."""
        marks = _marks(directory)  # before it is read: what changes meanwhile is read again
        batch = read_batch(directory)
        items = read_items(directory, batch)
        kept = [-inf if item.text_kept is None else item.text_kept for item in items if item.text is not None]
        if batch.texts and not kept:
            kept = [-inf]  # texts were being deleted, and some of its files may still show them
        least = sorted((item for item in items if item.dissimilar), key=lambda item: item.depth)
        return cls(
            directory=directory,
            batch=batch,
            ids=frozenset(item.id for item in items),
            kept=(min(kept), max(kept)) if kept else (),
            least_alike=tuple(least),
            marks=marks,
        )

    @property
    def facts(self) -> BatchFacts:
        """What is told of it."""
        batch = self.batch
        path = str(self.directory)
        return BatchFacts(batch.episode, batch.slice, path, batch.items, batch.texts, batch.created, batch.kind)

    def without_old_texts(self, term: Term) -> Filed:
        """The batch, rewritten without the texts that must go. OSError if the disk refuses."""
        items = [term.allowed(item) for item in read_items(self.directory, self.batch)]
        shown = any(item.text is not None for item in items)
        rewrite(self.directory, replace(self.batch, texts=shown), items)
        return Filed.read(self.directory)


class Shelf:
    """The batches of `model` below `root`, those of other models left alone.

    Only those that matter are read as a whole: the newest, those of open episodes, and those with texts. One
    thread changes it; any may read `filed`, which is swapped as a whole.
    """

    def __init__(self, root: Path, model: str) -> None:
        self._root, self._model = root, model
        self._catalogue = Catalogue(root)
        self.filed: Mapping[str, Filed] = MappingProxyType({})
        self._asking: Collection[str] = ()
        self._damaged: dict[Path, tuple[Mark, Mark]] = {}

    @property
    def newest(self) -> list[Filed]:
        """The newest ones, and those of open episodes, the newest of them first."""
        batches = {each.directory: each.batch for each in self.filed.values()}
        return [self.filed[path.name] for path in newest(batches, NEWEST, self._asking)]

    def put(self, filed: Filed) -> None:
        """Take up a batch, or another version of it."""
        self.filed = MappingProxyType({**self.filed, filed.batch.episode: filed})

    def look(self, complain: Callable[[Path, Exception], None], asking: Collection[str] = ()) -> None:
        """Take note of batches that were added, changed or removed; `asking` are the episodes that are open.

        What cannot be read is tried again each time, what is damaged when its files change. OSError if the
        directory cannot be read.
        """
        self._asking = asking
        batches = {
            path: batch
            for path, batch in self._catalogue.look(complain).items()
            if batch.model == self._model and batch.episode == path.name
        }
        with_texts = (path for path, batch in batches.items() if batch.texts)
        wanted = dict.fromkeys([*newest(batches, NEWEST, asking), *with_texts])
        self._damaged = {path: marks for path, marks in self._damaged.items() if path in wanted}
        filed = {path.name: self._filed(path, complain) for path in wanted}
        self.filed = MappingProxyType({name: each for name, each in filed.items() if each is not None})

    def _filed(self, path: Path, complain: Callable[[Path, Exception], None]) -> Filed | None:
        known = self.filed.get(path.name)
        try:
            marks = _marks(path)
            if known is not None and known.marks == marks:
                return known
            return None if self._damaged.get(path) == marks else Filed.read(path)
        except ArtefactError as error:
            self._damaged[path] = marks
            complain(path, error)
            return None
        except (LeadlineError, OSError) as error:
            complain(path, error)
            return known

    def with_texts_over(self, term: Term) -> list[Filed]:
        """The batches with a text that must go."""
        return [each for each in self.filed.values() if any(map(term.is_over, each.kept))]

    def expire(self, filed: Filed, term: Term) -> None:
        """Delete the texts of a batch that must go. OSError or ArtefactError if that cannot be done."""
        self.put(filed.without_old_texts(term))

    def sweep(self, until: float) -> None:
        """Remove what a crash has left half-written before `until`: there may be text in it."""
        for path in leftovers(self._root, until):
            shutil.rmtree(path, ignore_errors=True)


def _marks(directory: Path) -> tuple[Mark, Mark]:
    return mark_of(directory / BATCH), mark_of(directory / ITEMS)

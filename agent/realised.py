"""What the labels that came back say: the accuracy lost in the window that an annotation batch was drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agent.alert_report import Realised
from agent.annotation.batch import TOKENS
from agent.annotation.catalogue import Catalogue, mark_of, newest
from agent.annotation.files import BATCH, LABELS, read_arrays, read_batch, read_items
from agent.annotation.labels import read_labels
from agent.errors import ArtefactError, LeadlineError, UsageError
from agent.interval import UNKNOWN, Interval
from detectors.proportions import difference
from detectors.softmax import confidences
from detectors.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from agent.annotation.batch import Arrays, Batch
    from agent.annotation.catalogue import Mark
    from agent.records import Label
    from agent.reference import Reference
    from detectors.contract import Vector
    from detectors.survey import Combined, Share

# So many batches are told of, the newest, beside those of open episodes; older ones stay on the disk, unread.
MOST_BATCHES = 50


@dataclass(frozen=True)
class BatchItems:
    """The n items of a batch: their `ids`, their `rows` (n,) in the arrays, and what the model `predicted`.

    `stratum` (n,) is the place of each item's stratum, and `sizes` (H,) how many of the window's sample each has.
    """

    ids: tuple[str, ...]
    rows: NDArray[np.intp]
    predicted: tuple[str | None, ...]
    stratum: NDArray[np.intp]
    sizes: Vector

    @classmethod
    def of(cls, directory: Path, batch: Batch) -> BatchItems:
        """Those of the batch in this directory. ArtefactError where they are damaged."""
        items = read_items(directory, batch)
        stratum = np.array([item.stratum for item in items], np.intp)
        sizes = np.array([each.items for each in batch.strata], np.float64)
        if (np.bincount(stratum, minlength=len(sizes)) > sizes).any():
            raise ArtefactError(
                f"{directory}: a stratum has more items than {BATCH} says. Take a copy that is whole."
            )
        return cls(
            ids=tuple(item.id for item in items),
            rows=np.array([item.row for item in items], np.intp),
            predicted=tuple(item.prediction for item in items),
            stratum=stratum,
            sizes=sizes,
        )

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Account:
    """The labels of one batch, put together: m of its n items are labelled.

    `source` is the source's accuracy and on how many rows; `free` (N,) how probably the model is right on each
    item of the window's sample, said without labels.
    """

    batch: Batch
    asked: BatchItems
    answers: Mapping[str, Label]
    free: Vector
    source: tuple[float, int]

    @cached_property
    def chosen(self) -> NDArray[np.intp]:
        """(m,) the items of the batch that are labelled."""
        return np.array([place for place, name in enumerate(self.asked.ids) if name in self.answers], np.intp)

    @property
    def rows(self) -> NDArray[np.intp]:
        """(m,) their rows in the arrays."""
        return self.asked.rows[self.chosen]

    @cached_property
    def labels(self) -> tuple[object, ...]:
        """Their labels."""
        return tuple(self.answers[self.asked.ids[place]].label for place in self.chosen.tolist())

    @cached_property
    def survey(self) -> Survey:
        """The labelled items as a sample of the window."""
        said = [self.asked.predicted[place] for place in self.chosen.tolist()]
        right = np.array([a == b for a, b in zip(self.labels, said, strict=True)], np.float64)
        return Survey(self.asked.sizes, self.asked.stratum[self.chosen], right)

    @cached_property
    def combined(self) -> Combined:
        """The accuracy by labels and predictions together."""
        return self.survey.combined(self.free[self.rows], float(self.free.mean()))

    def drop(self, share: Share) -> Interval:
        """The drop at an accuracy; its interval knows that the source's own is known from so many rows only."""
        bounds = difference(self.source, (share.value, share.items))
        return Interval(self.source[0] - share.value, *bounds)

    @property
    def realised(self) -> Realised:
        """What is told of it; nothing but counts where no item is labelled, or tokens are.

        A batch holds no predictions of single tokens.
        """
        silent = not len(self.chosen) or self.batch.task == TOKENS
        return Realised(
            slice=self.batch.slice,
            episode=self.batch.episode,
            asked=len(self.asked),
            labelled=len(self.chosen),
            drop=UNKNOWN if silent else self.drop(self.survey.share),
            combined=UNKNOWN if silent else self.drop(self.combined.share),
            estimated=self.batch.estimate.drop,
        )


def label_free(reference: Reference, arrays: Arrays) -> Vector:
    """(N,) how probably the model is right on each item, without labels: what the panel gives to its prediction.

    Where the reference has no panel it is the calibrated confidence, as where tokens are labelled.
    """
    logits = arrays.logits
    if logits is None:
        confidence = arrays.confidence
        return np.zeros(len(arrays)) if confidence is None else np.asarray(confidence[:, 1], np.float64)
    if reference.estimator is None:
        return np.asarray(confidences(logits, reference.temperature.value)[:, 1], np.float64)
    posteriors = reference.estimator.panel.posteriors(arrays.embedding.astype(np.float32))
    return np.asarray(posteriors.believed[np.arange(len(arrays)), logits.argmax(axis=1)], np.float64)


def account_of(reference: Reference, directory: Path) -> Account:
    """Everything the labels of a batch come to. UsageError if it was drawn with another reference.

    ArtefactError where the batch is damaged.
    """
    batch = read_batch(directory)
    check_reference(reference, batch, directory)
    asked = BatchItems.of(directory, batch)
    free = label_free(reference, read_arrays(directory, batch))
    return Account(batch, asked, read_labels(directory), free, source_of(reference))


def source_of(reference: Reference) -> tuple[float, int]:
    """The source's accuracy on its test rows, and how many these are."""
    return reference.source.accuracy["test"], reference.source.rows["test"]


def check_reference(reference: Reference, batch: Batch, directory: Path) -> None:
    """UsageError unless the batch was drawn with this reference, or with an earlier version of it."""
    if batch.reference_id not in reference.ids:
        raise UsageError(
            f"{directory}: this batch was drawn with the reference {batch.reference_id}, and {reference.id} is "
            "neither that nor a version made from it. Use that reference: source and encoder may be others here."
        )


class RealisedDrops:
    """Watches the batches below one directory, and says what their labels come to at the cost of what changed."""

    def __init__(self, reference: Reference, root: Path) -> None:
        self._reference = reference
        self._catalogue = Catalogue(root)
        self._known: dict[Path, _Known] = {}

    def read(self, asking: Container[str], complain: Callable[[Path, Exception], None]) -> tuple[Realised, ...]:
        """What is known of the newest batches and of those of these episodes, the newest first.

        Of those alone that this reference may judge. `complain` is told of those that cannot be read, each time.
        OSError if the directory cannot be.
        """
        batches = {
            path: batch
            for path, batch in self._catalogue.look(complain).items()
            if batch.reference_id in self._reference.ids
        }
        known: dict[Path, _Known] = {}
        for path in newest(batches, MOST_BATCHES, asking):
            try:
                known[path] = self._now(path, batches[path])
            except (LeadlineError, OSError) as error:
                complain(path, error)
        self._known = known
        return tuple(each.realised for each in known.values())

    def _now(self, path: Path, batch: Batch) -> _Known:
        mark, known = mark_of(path / LABELS), self._known.get(path)
        if known is None or known.batch is not batch:
            asked, free = BatchItems.of(path, batch), None
        elif known.mark == mark:
            return known
        else:
            asked, free = known.asked, known.free
        answers = read_labels(path)
        if free is None and answers:
            free = label_free(self._reference, read_arrays(path, batch))
        held = np.zeros(0) if free is None else free
        account = Account(batch, asked, answers, held, source_of(self._reference))
        return _Known(mark, batch, asked, free, account.realised)


@dataclass(frozen=True)
class _Known:
    """What is kept of a batch from one look to the next: ids and a few numbers an item, no arrays."""

    mark: Mark
    batch: Batch
    asked: BatchItems
    free: Vector | None
    realised: Realised

"""Logits that are ragged by item: a sequence labeller has a row a token, a classifier one an item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from detectors.softmax import probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from detectors.contract import Matrix, Vector


@dataclass(frozen=True)
class TokenLogits:
    """Logits `values` (t, C) of n items' tokens; those of item i are rows `starts[i]` to `starts[i + 1]`.

    No item is without tokens: ValueError unless `starts` (n + 1,) grows from 0 to t.
    """

    values: Matrix
    starts: NDArray[np.intp]

    def __post_init__(self) -> None:
        ends = self.starts[:1].tolist() + self.starts[-1:].tolist()
        if ends != [0, len(self.values)] or not (np.diff(self.starts) > 0).all():
            raise ValueError("every item needs at least one token, and every token an item")

    @classmethod
    def of(cls, items: Sequence[Matrix]) -> Self:
        """The logits of at least one item, each (its tokens, C). ValueError if there is none, or one is empty."""
        return cls(np.concatenate(items), _starts([len(item) for item in items]))

    @classmethod
    def one_each(cls, logits: Matrix) -> Self:
        """The (n, C) logits of a classifier, which decides once an item."""
        return cls(logits, np.arange(len(logits) + 1))

    @classmethod
    def joined(cls, parts: Sequence[TokenLogits]) -> Self:
        """The items of all parts, one part after another."""
        values = np.concatenate([part.values for part in parts])
        return cls(values, _starts(np.concatenate([np.diff(part.starts) for part in parts])))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Self:
        """The chosen items, in the order asked for."""
        first, counts = self.starts[:-1][rows], np.diff(self.starts)[rows]
        starts = _starts(counts)
        return type(self)(self.values[np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])], starts)

    def slice(self, start: int, end: int) -> Self:
        """The items from `start` to `end`, without copying their logits."""
        starts = self.starts[start : end + 1]
        return type(self)(self.values[starts[0] : starts[-1]], starts - starts[0])

    @cached_property
    def predicted(self) -> NDArray[np.intp]:
        """(t,) class index of every token."""
        classes: NDArray[np.intp] = self.values.argmax(axis=1)
        return classes

    def confidence(self, temperature: float = 1.0) -> Vector:
        """(n,) mean over an item's tokens of the predicted class's probability, softmax(z / temperature)."""
        return self._means(probabilities(self.values, temperature).max(axis=1))

    def confidences(self, temperature: float) -> NDArray[np.float64]:
        """(n, 2) the raw confidence of each item, and the one calibrated by this temperature."""
        return np.stack([self.confidence(), self.confidence(temperature)], axis=1)

    def quality(self, labels: NDArray[np.integer]) -> Vector:
        """(n,) share of an item's tokens labelled right, in [0, 1]; `labels` (t,) are the true class indices."""
        return self._means((self.predicted == labels).astype(np.float64))

    def by_item(self, values: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """(t,) values of tokens, in one piece an item."""
        return [values[start:end] for start, end in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def _means(self, values: Vector) -> Vector:
        # reduceat gives the next value, not zero, for an empty piece; there is none.
        means: Vector = np.add.reduceat(values, self.starts[:-1]) / np.diff(self.starts)
        return means


def _starts(counts: Sequence[int] | NDArray[np.integer]) -> NDArray[np.intp]:
    """(n + 1,) where each of n pieces of these sizes starts, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)

"""Embedding depth against the source, and how deep a target lies beside it (Depth F1 paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from detectors.contract import FitError, Matrix, Needed, Outputs, Source, Vector
from detectors.geometry import unit_rows


@dataclass(frozen=True)
class Depth:
    """D(x) = 1 + x . m in [0, 2], m the mean unit embedding of the source.

    Equal to 2 minus the mean cosine distance to all source items, without keeping them. Blunt by design: a
    source of several distant topics has a mean between them.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"embedding"})

    mean: Matrix

    @classmethod
    def fit(cls, source: Source) -> Self:
        """m over the training embeddings."""
        if not len(source.train):
            raise FitError("no training rows to take a mean embedding from")
        return cls(mean=unit_rows(source.train.embedding).mean(axis=0))

    def score(self, outputs: Outputs) -> Vector:
        """(n,) depths."""
        return np.asarray(1 + unit_rows(outputs.embedding) @ self.mean, np.float64)

    def leave_one_out(self, embedding: Matrix, size: int) -> Vector:
        """(n,) depths of source items, each with itself left out of a source of `size` items.

        D(s_i) = (n-2)/(n-1) + n/(n-1) s_i . m, as the authors' code computes it; a zero row, which has no
        cosine with itself either, gets 1. FitError if size < 2.
        """
        if size <= 1:
            raise FitError("a source of one item has no other item to compare it with")
        unit = unit_rows(embedding)
        itself = 1 + np.square(unit).sum(axis=1)
        return np.asarray((size * (1 + unit @ self.mean) - itself) / (size - 1), np.float64)


def depth_ranks(depths: Vector, source_depths: Vector) -> Vector:
    """(n,) P[D(X) <= d] over source depths X for each target depth d, ties counted half.

    `source_depths` must be sorted upwards. The mean over a target is Q(S, T): 0.5 where source and target lie
    equally deep, towards 0 as the target becomes dissimilar.
    """
    below = np.searchsorted(source_depths, depths, side="left")
    up_to = np.searchsorted(source_depths, depths, side="right")
    return np.asarray((below + up_to) / (2 * len(source_depths)), np.float64)

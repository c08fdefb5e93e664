"""DICE: energy of a sparsified head (Sun and Li, 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from detectors.contract import FitError, Matrix, Needed, Outputs, Source, Vector, features_of, head_of
from detectors.softmax import free_energy


@dataclass(frozen=True)
class DICE:
    """lse((W * M) h + b): M keeps the weights that contribute most on the training rows.

    Published for wide networks with non-negative features; with signed features it drops half the evidence
    and often loses to `energy`.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"features", "head"})

    weight: Matrix
    bias: Matrix

    @classmethod
    def fit(cls, source: Source, *, sparsity: float = 90.0) -> Self:
        """Fold M into W: keep W_ij where W_ij mean(h)_j is strictly above that percentile of them all."""
        weight, bias = head_of(source)
        if not len(source.train):
            raise FitError("no training rows to take mean features from")
        contribution = weight * features_of(source.train).mean(axis=0)
        kept = contribution > np.percentile(contribution, sparsity)
        return cls(weight=np.where(kept, weight, 0.0), bias=bias)

    def score(self, outputs: Outputs) -> Vector:
        """(n,) log-sum-exp of the sparsified head's logits."""
        return free_energy(features_of(outputs) @ self.weight.T + self.bias)

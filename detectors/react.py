"""ReAct: energy after clipping the activations (Sun et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from detectors.contract import FitError, Matrix, Needed, Outputs, Source, Vector, features_of, head_of
from detectors.softmax import free_energy


@dataclass(frozen=True)
class ReAct:
    """lse(W min(h, c) + b): unusually large activations are cut to c before the head sees them.

    Meant for activations that can run large on unknown input; on bounded features (tanh, unit length) it
    stays close to `energy`.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"features", "head"})

    ceiling: float
    weight: Matrix
    bias: Matrix

    @classmethod
    def fit(cls, source: Source, *, percentile: float = 90.0) -> Self:
        """c is that percentile, linearly interpolated, of all validation activations taken together."""
        weight, bias = head_of(source)
        if not len(source.validation):
            raise FitError("no validation rows to take a percentile of activations from")
        ceiling = float(np.percentile(features_of(source.validation), percentile))
        return cls(ceiling=ceiling, weight=weight, bias=bias)

    def score(self, outputs: Outputs) -> Vector:
        """(n,) log-sum-exp of the head's logits on the clipped features."""
        clipped = np.minimum(features_of(outputs), self.ceiling)
        return free_energy(clipped @ self.weight.T + self.bias)

"""GradNorm: the size of the gradient the item would cause (Huang et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from detectors.contract import Needed, Outputs, Source, Vector, features_of, logits_of
from detectors.softmax import probabilities


@dataclass(frozen=True)
class GradNorm:
    """L1 norm of d KL(uniform || softmax(z / T)) / dW, in closed form: C/T * |h|_1 * |softmax(z/T) - 1/C|_1.

    C/T scales as the published code does (the sum over the uniform's C terms is not averaged). The weight's
    gradient only; no autograd. Weak where |h|_1 hardly varies.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"features", "logits"})

    temperature: float

    @classmethod
    def fit(cls, source: Source, *, temperature: float = 1.0) -> Self:
        """Nothing is learnt; the source is only checked to have logits and features."""
        logits_of(source.validation)
        features_of(source.validation)
        return cls(temperature=temperature)

    def score(self, outputs: Outputs) -> Vector:
        """(n,) gradient norms."""
        posterior = probabilities(logits_of(outputs), self.temperature)
        classes = posterior.shape[1]
        output_part = np.abs(posterior - 1 / classes).sum(axis=1)
        feature_part = np.abs(features_of(outputs)).sum(axis=1)
        return np.asarray(classes / self.temperature * feature_part * output_part, np.float64)

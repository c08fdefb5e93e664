"""KL matching (Hendrycks et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from detectors.contract import FitError, Matrix, Needed, Outputs, Source, Vector, logits_of
from detectors.softmax import entropy, probabilities

# Keeps log d finite where a class's mean posterior is exactly 0.
EPSILON = 1e-8


@dataclass(frozen=True)
class KLM:
    """-min_k KL(p || d_k), where d_k is the mean posterior of the validation items predicted as class k.

    Not monotone in confidence: an item *more* confident than its class's mean scores lower. Weak by nature
    where the model separates its classes well.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"logits"})

    log_posteriors: Matrix

    @classmethod
    def fit(cls, source: Source) -> Self:
        """(K, C) log mean posteriors of the K classes that were predicted at all; the others are dropped."""
        posterior = probabilities(logits_of(source.validation))
        predicted = posterior.argmax(axis=1)
        means = [posterior[predicted == k].mean(axis=0) for k in np.unique(predicted)]
        if not means:
            raise FitError("no validation rows to take mean posteriors from")
        return cls(log_posteriors=np.log(np.stack(means) + EPSILON))

    def score(self, outputs: Outputs) -> Vector:
        """(n,) H(p) + max_k p . log d_k, the closed form of -min_k KL(p || d_k)."""
        logits = logits_of(outputs)
        return np.asarray(entropy(logits) + (probabilities(logits) @ self.log_posteriors.T).max(axis=1))

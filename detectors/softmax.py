"""Softmax, entropy and log-sum-exp of logits, stable in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Matrix, Vector


def probabilities(logits: Matrix, temperature: float = 1.0) -> NDArray[np.float64]:
    """(n, C) softmax(logits / temperature)."""
    probability: NDArray[np.float64] = softmax(np.asarray(logits, np.float64) / temperature, axis=1)
    return probability


def free_energy(logits: Matrix) -> Vector:
    """(n,) log-sum-exp of (n, C) logits."""
    energy: Vector = logsumexp(np.asarray(logits, np.float64), axis=1)
    return energy


def entropy(logits: Matrix) -> Vector:
    """(n,) entropy of softmax(logits) in nats, as lse(z) - sum p z, so that 0 log 0 never appears."""
    values = np.asarray(logits, np.float64)
    nats: Vector = free_energy(values) - (probabilities(values) * values).sum(axis=1)
    return nats

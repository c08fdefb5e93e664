"""Jensen-Shannon divergence of word counts (domain-robustness paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def js_divergence(first: NDArray[np.integer], second: NDArray[np.integer]) -> float:
    """Divergence in bits, in [0, 1], of two (V,) count vectors over the same words; no smoothing, no root.

    NaN where either has no counts.

    >>> js_divergence(np.array([1, 1, 0]), np.array([0, 1, 1]))
    0.5
    """
    if not first.sum() or not second.sum():
        return float("nan")
    p, q = first / first.sum(), second / second.sum()
    middle = (p + q) / 2
    return float((_entropy_to(p, middle) + _entropy_to(q, middle)) / 2)


def _entropy_to(p: NDArray[np.float64], middle: NDArray[np.float64]) -> float:
    """KL(p || middle) in bits; words that p lacks add nothing."""
    seen = p > 0
    return float((p[seen] * np.log2(p[seen] / middle[seen])).sum())

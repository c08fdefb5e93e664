"""Unit vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Matrix

# A zero row stays zero instead of becoming NaN.
SMALLEST_NORM = 1e-12


def unit_rows(rows: Matrix) -> NDArray[np.float64]:
    """(n, d) float64 rows divided by max(|row|, 1e-12), in C order whatever the order of the input."""
    values = np.asarray(rows, np.float64, order="C")
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    unit: NDArray[np.float64] = values / np.maximum(norms, SMALLEST_NORM)
    return unit

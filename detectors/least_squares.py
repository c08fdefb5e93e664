"""Linear heads by least squares, solved from sums that add: leave-one-fold-out costs one solve, not one training.

A ridge regression on one-hot labels is Fisher's linear discriminant up to scale. The estimates train hundreds of
such heads (a domain classifier for each fold, a head for every left-out pair of domains); from the sums of each
part, any union of parts is an addition away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from detectors.contract import FitError, Head

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from detectors.contract import Matrix, Vector

# Ridge in units of the features' mean square: right where rows are many times the features. With few rows a head
# wants a hundred times as much, so those who train on few say so.
STRENGTH = 1e-2


@dataclass(frozen=True)
class Moments:
    """What least squares needs of a set of rows.

    `gram` (d+1, d+1) is the sum of outer products of the features with a trailing 1, `cross` (d+1, k) that of the
    features with the k targets. The lower right entry of `gram` is the number of rows.
    """

    gram: NDArray[np.float64]
    cross: NDArray[np.float64]

    @classmethod
    def of(cls, features: Matrix, targets: NDArray[np.floating]) -> Self:
        """The sums over (n, d) features and (n, k) targets."""
        rows = with_one(features)
        return cls(rows.T @ rows, rows.T @ targets)

    @classmethod
    def of_labels(cls, features: Matrix, labels: NDArray[np.integer], classes: int) -> Self:
        """The sums over (n, d) features and (n,) class indices as one-hot targets."""
        return cls.of(features, np.eye(classes)[labels])

    @property
    def rows(self) -> float:
        """How many rows these sums are over."""
        return float(self.gram[-1, -1])

    def __add__(self, other: Self) -> Self:
        """The sums over both sets of rows."""
        return type(self)(self.gram + other.gram, self.cross + other.cross)

    def __sub__(self, other: Self) -> Self:
        """The sums without the other set of rows, which must be part of this one."""
        return type(self)(self.gram - other.gram, self.cross - other.cross)

    def scaled(self, weight: float) -> Self:
        """The sums with every row counted `weight` times."""
        return type(self)(self.gram * weight, self.cross * weight)

    def head(self, strength: float = STRENGTH) -> Head:
        """The head minimising squared error plus a ridge on the weights, not on the bias.

        Its k outputs are linear estimates of the targets. FitError without rows.
        """
        if self.rows <= 0:
            raise FitError("no rows to solve a least-squares head from")
        width = len(self.gram) - 1
        ridge = max(strength * float(np.trace(self.gram[:-1, :-1])) / width, np.finfo(np.float64).tiny)
        penalty = np.full(width + 1, ridge)
        penalty[-1] = 0.0
        solution = np.linalg.solve(self.gram + np.diag(penalty), self.cross)
        return Head(solution[:-1].T.copy(), solution[-1].copy())


def with_one(features: Matrix) -> NDArray[np.float64]:
    """(n, d+1) float64 features with a trailing 1."""
    values: NDArray[np.float64] = np.empty((len(features), features.shape[1] + 1))
    values[:, :-1] = features
    values[:, -1] = 1.0
    return values


def predicted(head: Head, features: Matrix) -> NDArray[np.intp]:
    """(n,) class indices that a head gives to (n, d) features."""
    chosen: NDArray[np.intp] = head.logits(features).argmax(axis=1)
    return chosen


def accuracy(head: Head, features: Matrix, labels: NDArray[np.integer]) -> float:
    """Share of (n, d) features that a head puts into their class (n,); NaN without rows."""
    right: Vector = (predicted(head, features) == labels).astype(np.float64)
    return float(right.mean()) if len(right) else float("nan")

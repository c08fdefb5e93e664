"""ViM: virtual-logit matching (Wang et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from detectors.contract import (
    FitError,
    Matrix,
    Needed,
    Outputs,
    Source,
    Vector,
    features_of,
    head_of,
    logits_of,
)
from detectors.softmax import free_energy

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Below this share of the features' size a residual is rounding noise, and alpha would be meaningless.
NEGLIGIBLE = 1e-6
# Singular values of W below this share of the largest are rounding noise: the rows of a softmax head may sum
# to zero, and float32 weights do so only nearly. Inverted, the noise would move u.
HEAD_CUTOFF = 1e-6


@dataclass(frozen=True)
class ViM:
    """lse(z) - alpha |R^T (h - u)|_2: energy less the part of h outside the principal subspace.

    `projection` is R itself, or the principal directions P where they are fewer (`complement`); then the
    residual is |h-u|^2 - |P^T (h-u)|^2. Needs features with some redundancy: with D at or above their rank
    nothing is left outside.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"features", "logits", "head"})

    origin: Matrix
    projection: Matrix
    alpha: float
    complement: bool

    @classmethod
    def fit(cls, source: Source, *, principal: int | None = None) -> Self:
        """u = -pinv(W) b; directions from the second moment about u, not the mean."""
        weight, bias = head_of(source)
        if not len(source.train):
            raise FitError("no training rows to take principal directions from")
        features = features_of(source.train)
        size = features.shape[1]
        dimensions = default_principal(size) if principal is None else principal
        if not 0 < dimensions < size:
            raise FitError(f"{dimensions} principal dimensions asked for, but the features have {size}")
        origin = -np.linalg.pinv(weight, rcond=HEAD_CUTOFF) @ bias
        vectors = _directions(features - origin)
        complement = dimensions < size / 2
        projection = vectors[:, size - dimensions :] if complement else vectors[:, : size - dimensions]
        residual = _residual(features - origin, projection, complement=complement).mean()
        if residual <= NEGLIGIBLE * np.linalg.norm(features - origin, axis=1).mean():
            raise FitError(f"{dimensions} principal dimensions span all training features: ask for fewer")
        alpha = float(logits_of(source.train).max(axis=1).mean() / residual)
        return cls(
            origin=origin,
            projection=np.ascontiguousarray(projection),  # the layout it will have when loaded again
            alpha=alpha,
            complement=complement,
        )

    def score(self, outputs: Outputs) -> Vector:
        """(n,) energy less alpha times the residual's length."""
        residual = _residual(features_of(outputs) - self.origin, self.projection, complement=self.complement)
        return np.asarray(free_energy(logits_of(outputs)) - self.alpha * residual, np.float64)


def default_principal(size: int) -> int:
    """D of the original paper for features of this size.

    >>> [default_principal(size) for size in (2048, 768, 384)]
    [1000, 512, 192]
    """
    wide, medium = 2048, 768
    return 1000 if size >= wide else 512 if size >= medium else size // 2


def _directions(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """(d, d) eigenvectors of the second moment, smallest eigenvalue first."""
    vectors: NDArray[np.float64] = np.linalg.eigh(centred.T @ centred / len(centred)).eigenvectors
    return vectors


def _residual(centred: NDArray[np.float64], projection: Matrix, *, complement: bool) -> Vector:
    """(n,) length of the part of each row outside the principal subspace."""
    squared: Vector = np.square(centred @ projection).sum(axis=1)
    if complement:
        squared = np.maximum(np.square(centred).sum(axis=1) - squared, 0.0)
    return np.sqrt(squared)

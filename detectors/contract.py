"""What every detector takes and gives.

A detector is a frozen dataclass whose fields are plain arrays and numbers. Fitting is its constructor, so an
unfitted detector cannot exist, and saving one needs no pickle. To add a detector: one file, one row in
`detectors.table`, one oracle test.
"""

from __future__ import annotations

from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.floating]
Needed = Literal["embedding", "logits", "features", "head"]


class FitError(ValueError):
    """The source cannot fit this detector; the message says what is missing or degenerate."""


@dataclass(frozen=True)
class Outputs:
    """What the encoder and the task model say of n items, row by row.

    `embedding` (n, e) is the encoder's output; `logits` (n, C) and `features` (n, d), the task model's last
    layer, are None where the model does not give them.
    """

    embedding: Matrix
    logits: Matrix | None = None
    features: Matrix | None = None

    def __len__(self) -> int:
        return len(self.embedding)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Outputs:
        """The chosen rows, in the order asked for."""
        return self._each(lambda part: part[rows])

    def zeroed(self, rows: NDArray[np.bool_]) -> Outputs:
        """The same outputs with zeros in the chosen (n,) rows."""
        return self._each(lambda part: np.where(rows[:, np.newaxis], 0, part))

    def _each(self, change: Callable[[Matrix], Matrix]) -> Outputs:
        """Every array changed alike. Features that are the embedding itself stay one array with it."""
        embedding = change(self.embedding)
        features = self.features
        if features is not None:
            features = embedding if features is self.embedding else change(features)
        return Outputs(embedding, None if self.logits is None else change(self.logits), features)

    def finite(self) -> NDArray[np.bool_]:
        """(n,) whether every number of the row is finite."""
        parts = [part for part in (self.embedding, self.logits, self.features) if part is not None]
        rows: NDArray[np.bool_] = np.logical_and.reduce([np.isfinite(part).all(axis=1) for part in parts])
        return rows


@dataclass(frozen=True)
class Head:
    """The task model's last layer: logits = weight @ features + bias, with weight (C, d) and bias (C,)."""

    weight: Matrix
    bias: Matrix

    def logits(self, features: Matrix) -> NDArray[np.float64]:
        """(n, C) float64 logits of (n, d) features."""
        return np.asarray(features, np.float64) @ np.asarray(self.weight, np.float64).T + self.bias


@dataclass(frozen=True)
class Source:
    """The training domain a detector is fitted on: training rows, validation rows and the model's head."""

    train: Outputs
    validation: Outputs
    head: Head | None = None


class Detector(Protocol):
    """A fitted, immutable scorer."""

    needs: ClassVar[frozenset[Needed]]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def fit(cls, source: Source) -> Self:
        """Fit on the source. Deterministic. FitError if the source is degenerate for this detector."""

    def score(self, outputs: Outputs) -> Vector:
        """(n,) float64 scores; higher is more in-distribution. Pure, and a row's score ignores its batch."""


def joined(parts: Sequence[Outputs]) -> Outputs:
    """The rows of all parts, one part after another; all of them have the same arrays."""
    first = parts[0]

    def all_of(get: Callable[[Outputs], Matrix | None]) -> Matrix | None:
        found = [array for part in parts if (array := get(part)) is not None]
        return np.concatenate(found) if found else None

    embedding = np.concatenate([part.embedding for part in parts])
    shared = first.features is first.embedding
    features = embedding if shared else all_of(lambda part: part.features)
    return Outputs(embedding, all_of(lambda part: part.logits), features)


def missing(needs: frozenset[Needed], outputs: Outputs, head: Head | None) -> list[Needed]:
    """The needs that these outputs and this head do not meet, in alphabetical order."""
    have: Mapping[Needed, object] = {
        "embedding": outputs.embedding,
        "logits": outputs.logits,
        "features": outputs.features,
        "head": head,
    }
    return sorted(need for need in needs if have[need] is None)


def logits_of(outputs: Outputs) -> NDArray[np.float64]:
    """(n, C) logits in float64; ValueError if these outputs have none."""
    if outputs.logits is None:
        raise ValueError("this detector needs logits")
    return np.asarray(outputs.logits, np.float64)


def features_of(outputs: Outputs) -> NDArray[np.float64]:
    """(n, d) features in float64; ValueError if these outputs have none."""
    if outputs.features is None:
        raise ValueError("this detector needs features")
    return np.asarray(outputs.features, np.float64)


def head_of(source: Source) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(C, d) weight and (C,) bias, copied to float64 in C order; FitError if the source has no head."""
    if source.head is None:
        raise FitError("the model's head (weight and bias) is not given")
    weight, bias = source.head.weight, source.head.bias
    return np.array(weight, np.float64, order="C"), np.array(bias, np.float64, order="C")

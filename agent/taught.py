"""What an estimator learns from: labelled rows, kept so that a domain can be added without the tables of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from agent.sample import half

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from detectors.contract import Outputs

# Rows of a labelled domain that its head learns from: as many as a window's sample and as many again.
MOST_ROWS = 4_000


@dataclass(frozen=True)
class TaughtRows:
    """n labelled rows of one domain, in random order, with nothing that anybody wrote.

    `embedding` (n, e) in half precision, `labels` and `predicted` (n,) class indices.
    """

    embedding: NDArray[np.float16]
    labels: NDArray[np.int32]
    predicted: NDArray[np.int32]

    @classmethod
    def of(cls, outputs: Outputs, labels: NDArray[np.integer], rows: NDArray[np.intp]) -> Self:
        """These rows of a model's outputs, which have logits."""
        if outputs.logits is None:
            raise ValueError("rows teach only where the model gives one class an item")
        return cls(
            half(outputs.embedding[rows]),
            np.asarray(labels[rows], np.int32),
            np.asarray(outputs.logits[rows].argmax(axis=1), np.int32),
        )

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Taught:
    """The rows of the source's training table, and of each reference domain by name."""

    source: TaughtRows
    domains: Mapping[str, TaughtRows]

    def __post_init__(self) -> None:
        parts = (self.source, *self.domains.values())
        if any(len(part.embedding) != len(part) or len(part.predicted) != len(part) for part in parts):
            raise ValueError("a domain has not one embedding, label and prediction a row")

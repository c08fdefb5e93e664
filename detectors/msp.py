"""Maximum softmax probability (Hendrycks and Gimpel, 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from detectors.contract import Needed, Outputs, Source, Vector, logits_of
from detectors.softmax import probabilities


@dataclass(frozen=True)
class MSP:
    """max softmax(z), in float64: float32 rounds the confident items to a tie at 1.

    Not for models trained to be over-confident everywhere: a far-away input may get a probability near 1.
    """

    needs: ClassVar[frozenset[Needed]] = frozenset({"logits"})

    @classmethod
    def fit(cls, source: Source) -> Self:
        """Nothing is learnt; the source is only checked to have logits."""
        logits_of(source.validation)
        return cls()

    def score(self, outputs: Outputs) -> Vector:
        """(n,) probability of the predicted class."""
        top: Vector = probabilities(logits_of(outputs)).max(axis=1)
        return top

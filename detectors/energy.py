"""Free energy (Liu et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from detectors.contract import Needed, Outputs, Source, Vector, logits_of
from detectors.softmax import free_energy


@dataclass(frozen=True)
class Energy:
    """lse(z), the negative free energy at temperature 1. Not for logits shifted by an arbitrary constant."""

    needs: ClassVar[frozenset[Needed]] = frozenset({"logits"})

    @classmethod
    def fit(cls, source: Source) -> Self:
        """Nothing is learnt; the source is only checked to have logits."""
        logits_of(source.validation)
        return cls()

    def score(self, outputs: Outputs) -> Vector:
        """(n,) log-sum-exp of the logits."""
        return free_energy(logits_of(outputs))

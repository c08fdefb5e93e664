"""Free energy, held against its definition."""

from __future__ import annotations

import math

import numpy as np

from detectors.contract import Outputs, Source
from detectors.energy import Energy


def test_energy_is_the_log_of_the_summed_exponentials(source: Source) -> None:
    """The score is log sum exp(z_c), computed here term by term."""
    logits = np.random.default_rng(0).normal(0, 4, (50, 5))
    expected = [math.log(math.fsum(math.exp(value) for value in row)) for row in logits]
    scores = Energy.fit(source).score(Outputs(embedding=logits, logits=logits))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)


def test_a_constant_added_to_the_logits_is_added_to_the_energy(source: Source, inside: Outputs) -> None:
    """Unlike softmax scores, the energy moves with a common shift of the logits."""
    energy = Energy.fit(source)
    shifted = Outputs(embedding=inside.embedding, logits=inside.logits + 3)
    np.testing.assert_allclose(energy.score(shifted), energy.score(inside) + 3, rtol=0, atol=1e-12)

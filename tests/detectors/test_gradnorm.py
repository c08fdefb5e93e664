"""GradNorm, held against a gradient taken numerically."""

from __future__ import annotations

import math

import numpy as np
import pytest

from detectors.contract import Head, Outputs, Source
from detectors.gradnorm import GradNorm

STEP = 1e-5


def loss(weight: np.ndarray, bias: np.ndarray, feature: np.ndarray, temperature: float) -> float:
    """Cross-entropy against a one for every class: the divergence from uniform times C, less a constant."""
    logits = (weight @ feature + bias) / temperature
    return float(len(logits) * math.log(np.exp(logits).sum()) - logits.sum())


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_gradnorm_is_the_l1_norm_of_the_weights_gradient(source: Source, temperature: float) -> None:
    """The closed form equals the summed central differences of the loss in every weight."""
    rng = np.random.default_rng(0)
    head = Head(weight=rng.normal(size=(3, 5)), bias=rng.normal(size=3))
    features = rng.normal(size=(8, 5))
    expected = np.zeros(len(features))
    for row, feature in enumerate(features):
        for index in np.ndindex(head.weight.shape):
            step = np.zeros_like(head.weight)
            step[index] = STEP
            up = loss(head.weight + step, head.bias, feature, temperature)
            down = loss(head.weight - step, head.bias, feature, temperature)
            expected[row] += abs(up - down) / (2 * STEP)
    batch = Outputs(embedding=features, logits=head.logits(features), features=features)
    scores = GradNorm.fit(source, temperature=temperature).score(batch)
    np.testing.assert_allclose(scores, expected, rtol=1e-7)


def test_a_flat_posterior_or_no_activation_has_no_gradient(source: Source) -> None:
    """Equal logits score 0 whatever the features, and so do zero features whatever the logits."""
    batch = Outputs(
        embedding=np.zeros((2, 1)),
        logits=np.array([[2.0, 2.0], [5.0, 0.0]]),
        features=np.array([[3.0], [0.0]]),
    )
    np.testing.assert_allclose(GradNorm.fit(source).score(batch), [0.0, 0.0], atol=1e-15)

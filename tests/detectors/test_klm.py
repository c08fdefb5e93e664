"""KL matching, held against the sum that defines the divergence."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from detectors.contract import Outputs, Source
from detectors.klm import EPSILON, KLM


def softmax(row: np.ndarray) -> list[float]:
    """The probabilities of one row of logits."""
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def divergence(p: list[float], d: list[float]) -> float:
    """KL(p || d + epsilon), with 0 log 0 = 0."""
    return sum(a * math.log(a / (b + EPSILON)) for a, b in zip(p, d, strict=True) if a > 0)


def outputs(logits: np.ndarray) -> Outputs:
    """Outputs of which only the logits matter."""
    return Outputs(embedding=np.zeros((len(logits), 1)), logits=logits)


def test_klm_is_minus_the_least_divergence_from_a_class_mean(source: Source) -> None:
    """The score is -min_k sum p log(p / d_k) over the predicted classes; one never predicted is dropped."""
    rng = np.random.default_rng(0)
    validation = rng.normal(0, 2, (60, 4))
    validation[:, 2] = validation.min(axis=1) - 0.5  # class 2 is never predicted
    batch = rng.normal(0, 3, (40, 4))
    batch[0] = [-1e4, 0, 1, 2]  # a probability of exactly 0
    batch[1] = [0, 0, 50, 0]  # sure of the class that was never predicted
    groups: dict[int, list[list[float]]] = {}
    for row in validation:
        groups.setdefault(int(np.argmax(row)), []).append(softmax(row))
    means = [[sum(column) / len(group) for column in zip(*group, strict=True)] for group in groups.values()]
    assert len(means) == 3
    expected = [-min(divergence(softmax(row), mean) for mean in means) for row in batch]
    fitted = KLM.fit(replace(source, validation=outputs(validation)))
    np.testing.assert_allclose(fitted.score(outputs(batch)), expected, rtol=0, atol=1e-10)


def test_an_item_at_a_class_mean_scores_highest(source: Source) -> None:
    """An item as confident as its class's mean scores about 0, a more and a less confident one below it."""
    fitted = KLM.fit(replace(source, validation=outputs(np.array([[1.0, 0.0], [0.0, 1.0]]))))
    mean, more, less = fitted.score(outputs(np.array([[1.0, 0.0], [6.0, 0.0], [0.0, 0.0]])))
    assert abs(mean) < 1e-7
    assert max(more, less) < -0.1

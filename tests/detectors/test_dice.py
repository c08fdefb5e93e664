"""DICE, held against an explicit mask."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from detectors.contract import Head, Outputs, Source
from detectors.dice import DICE


@pytest.mark.parametrize("share", [0.9, 0.35])
def test_dice_is_the_energy_of_the_largest_contributions(source: Source, outside: Outputs, share: float) -> None:
    """The score keeps W_cj where W_cj mean(h_j) is strictly above the percentile of all contributions."""
    weight, bias = source.head.weight, source.head.bias
    classes, size = weight.shape
    mean = [math.fsum(column) / len(source.train) for column in source.train.features.T]
    contributions = [[weight[c, j] * mean[j] for j in range(size)] for c in range(classes)]
    ordered = sorted(value for row in contributions for value in row)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    threshold = ordered[below] + (position - below) * (ordered[below + 1] - ordered[below])
    expected = []
    for row in outside.features:
        logits = list(bias)
        for c in range(classes):
            for j in range(size):
                if contributions[c][j] > threshold:
                    logits[c] += weight[c, j] * row[j]
        expected.append(math.log(sum(math.exp(value) for value in logits)))
    fitted = DICE.fit(source, sparsity=100 * share)
    np.testing.assert_allclose(fitted.score(outside), expected, rtol=0, atol=1e-10)


def test_contributions_at_the_threshold_are_dropped(source: Source) -> None:
    """Where all contributions tie none is strictly above, and only the bias is left."""
    train = Outputs(embedding=np.zeros((2, 1)), features=np.ones((2, 3)))
    head = Head(weight=np.ones((2, 3)), bias=np.array([0.0, 1.0]))
    fitted = DICE.fit(replace(source, train=train, head=head))
    np.testing.assert_allclose(fitted.score(train), math.log(1 + math.e))

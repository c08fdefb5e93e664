"""ReAct, held against explicit loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from detectors.contract import Head, Outputs, Source
from detectors.react import ReAct


def percentile(values: list[float], share: float) -> float:
    """The linearly interpolated quantile at `share` in [0, 1)."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    return ordered[below] + (position - below) * (ordered[below + 1] - ordered[below])


@pytest.mark.parametrize("share", [0.9, 0.5])
def test_react_is_the_energy_of_clipped_features(source: Source, outside: Outputs, share: float) -> None:
    """The score is lse(W min(h, c) + b), c the percentile of all validation entries taken together."""
    ceiling = percentile([value for row in source.validation.features for value in row], share)
    expected = []
    for row in outside.features:
        exponentials = [
            math.exp(sum(w * min(h, ceiling) for w, h in zip(weights, row, strict=True)) + bias)
            for weights, bias in zip(source.head.weight, source.head.bias, strict=True)
        ]
        expected.append(math.log(sum(exponentials)))
    fitted = ReAct.fit(source, percentile=100 * share)
    assert fitted.ceiling == pytest.approx(ceiling, abs=1e-12)
    np.testing.assert_allclose(fitted.score(outside), expected, rtol=0, atol=1e-10)


def test_the_ceiling_comes_from_validation_rows_and_clips_only_above(source: Source) -> None:
    """Training rows have no say in c, and large negative activations pass unclipped."""
    one = Outputs(embedding=np.zeros((11, 1)), features=np.arange(11.0)[:, None])
    other = replace(one, features=one.features + 100)
    head = Head(weight=np.ones((1, 1)), bias=np.zeros(1))
    fitted = ReAct.fit(replace(source, train=other, validation=one, head=head))
    assert fitted.ceiling == pytest.approx(9.0)
    batch = Outputs(embedding=np.zeros((3, 1)), features=np.array([[-500.0], [8.0], [500.0]]))
    np.testing.assert_allclose(fitted.score(batch), [-500.0, 8.0, 9.0])

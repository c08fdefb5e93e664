"""Depth, held against double loops over cosine distances."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.contract import FitError, Outputs, Source
from detectors.depth import Depth, depth_ranks

DEPTHS = st.lists(st.integers(0, 8), min_size=1, max_size=20)


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """The cosine distance of two vectors."""
    return 1 - float(x @ y) / (math.hypot(*x) * math.hypot(*y))


def test_depth_is_two_minus_the_mean_cosine_distance(source: Source, inside: Outputs) -> None:
    """The score equals 2 - mean distance to every training row, and lies in [0, 2]."""
    expected = [
        2 - sum(distance(x, s) for s in source.train.embedding) / len(source.train) for x in inside.embedding
    ]
    scores = Depth.fit(source).score(inside)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-13)
    assert ((scores >= 0) & (scores <= 2)).all()


def test_a_source_item_is_as_deep_as_it_lies_among_the_others(source: Source) -> None:
    """Leaving one out gives 2 - mean distance to the other source items."""
    rows = source.train.embedding
    expected = [
        2 - sum(distance(x, s) for j, s in enumerate(rows) if j != i) / (len(rows) - 1) for i, x in enumerate(rows)
    ]
    depths = Depth.fit(source).leave_one_out(rows, len(rows))
    np.testing.assert_allclose(depths, expected, rtol=0, atol=1e-13)


def test_a_zero_source_item_has_depth_one_among_the_others(source: Source) -> None:
    """A zero row is at distance 1 from all others, itself left out or not."""
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    fitted = Depth.fit(replace(source, train=Outputs(embedding=rows)))
    np.testing.assert_allclose(fitted.leave_one_out(rows, 3), [1.0, 1.0, 1.0])


def test_a_single_source_item_has_no_others(source: Source) -> None:
    """Leaving one out of a source of one is refused."""
    fitted = Depth.fit(source)
    with pytest.raises(FitError, match="one item"):
        fitted.leave_one_out(source.train.embedding[:1], 1)


@given(targets=DEPTHS, sources=DEPTHS)
def test_a_depth_rank_is_the_share_of_source_depths_below(targets: list[int], sources: list[int]) -> None:
    """Each rank is P[source depth < d] with ties counted half; their mean is Q(S, T)."""
    expected = [sum((s < t) + (s == t) / 2 for s in sources) / len(sources) for t in targets]
    ranks = depth_ranks(np.array(targets, float), np.sort(np.array(sources, float)))
    np.testing.assert_allclose(ranks, expected, rtol=0, atol=1e-15)
    pairs = sum((x < y) + (x == y) / 2 for x in sources for y in targets)
    assert ranks.mean() == pytest.approx(pairs / (len(sources) * len(targets)))


def test_a_source_lies_as_deep_as_itself(source: Source) -> None:
    """Q(S, S) is one half."""
    depths = np.sort(Depth.fit(source).score(source.train))
    assert depth_ranks(depths, depths).mean() == pytest.approx(0.5)

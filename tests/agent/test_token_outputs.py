"""Token logits: ragged arithmetic is what a loop over the items would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.token_outputs import TokenLogits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

CLASSES = 3


@st.composite
def items(draw: st.DrawFn) -> list[Matrix]:
    """One to twelve items of one to nine tokens."""
    counts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return [rng.normal(scale=5, size=(count, CLASSES)) for count in counts]


def confidence_of(item: Matrix, temperature: float) -> float:
    """The mean over tokens of the largest softmax probability, token by token."""
    largest = []
    for logits in item:
        powers = [np.exp((value - max(logits)) / temperature) for value in logits]
        largest.append(max(powers) / sum(powers))
    return float(sum(largest) / len(largest))


def same(found: TokenLogits, expected: Sequence[Matrix]) -> bool:
    """Whether these are the logits of exactly these items."""
    pieces = found.by_item(found.values)
    return len(found) == len(expected) and all(map(np.array_equal, pieces, expected))


@given(items(), st.floats(0.05, 20))
def test_confidence_is_the_mean_over_tokens(given_items: list[Matrix], temperature: float) -> None:
    """Each item's confidence is that of a plain loop, raw and calibrated."""
    tokens = TokenLogits.of(given_items)
    both = [[confidence_of(item, 1.0), confidence_of(item, temperature)] for item in given_items]
    np.testing.assert_allclose(tokens.confidences(temperature), both, rtol=1e-12)
    np.testing.assert_allclose(tokens.confidence(), [raw for raw, _ in both], rtol=1e-12)


@given(items(), st.integers(0, 2**32))
def test_quality_is_the_share_of_tokens_labelled_right(given_items: list[Matrix], seed: int) -> None:
    """Each item's quality is that of a plain loop, and lies in [0, 1]."""
    tokens = TokenLogits.of(given_items)
    labels = np.random.default_rng(seed).integers(0, CLASSES, len(tokens.values))
    expected, start = [], 0
    for item in given_items:
        right = [int(np.argmax(logits)) == labels[start + place] for place, logits in enumerate(item)]
        expected.append(sum(right) / len(right))
        start += len(item)
    np.testing.assert_allclose(tokens.quality(labels), expected, rtol=1e-15)
    assert tokens.predicted.tolist() == [int(np.argmax(logits)) for item in given_items for logits in item]


@given(items(), st.data())
def test_items_are_taken_in_the_order_asked_for(given_items: list[Matrix], data: st.DataObject) -> None:
    """Rows by number, even twice or none, and by truth value, are those of a list."""
    tokens = TokenLogits.of(given_items)
    places = st.integers(0, len(given_items) - 1)
    rows = data.draw(st.lists(places, max_size=20))
    assert same(tokens.take(np.array(rows, np.intp)), [given_items[row] for row in rows])
    chosen = data.draw(st.lists(st.booleans(), min_size=len(given_items), max_size=len(given_items)))
    assert same(
        tokens.take(np.array(chosen)), [item for item, take in zip(given_items, chosen, strict=True) if take]
    )


@given(items(), st.integers(0, 12), st.integers(1, 20))
def test_a_slice_is_that_of_a_list(given_items: list[Matrix], start: int, length: int) -> None:
    """From a start within the items to an end that may lie beyond; confidence does not depend on the batch."""
    tokens = TokenLogits.of(given_items)
    start = min(start, len(given_items) - 1)
    part = tokens.slice(start, start + length)
    assert same(part, given_items[start : start + length])
    assert part.confidence(2.0).tolist() == tokens.confidence(2.0)[start : start + length].tolist()


@given(items())
def test_a_classified_text_is_one_token(given_items: list[Matrix]) -> None:
    """For (n, C) logits quality is right or wrong, and confidence the largest probability itself."""
    logits = np.concatenate(given_items)
    each = TokenLogits.one_each(logits)
    labels = np.zeros(len(logits), np.intp)
    assert len(each) == len(logits)
    assert each.quality(labels).tolist() == (logits.argmax(axis=1) == 0).astype(float).tolist()
    assert each.confidence().tolist() == pytest.approx([confidence_of(row[np.newaxis], 1.0) for row in logits])


def test_nothing_taken_has_nothing() -> None:
    """Without items there are no confidences and no qualities, and no error."""
    none = TokenLogits.one_each(np.zeros((3, CLASSES))).take(np.array([], np.intp))
    assert len(none) == 0
    assert none.confidence().tolist() == none.quality(np.array([], np.intp)).tolist() == []
    assert none.confidences(2.0).shape == (0, 2)


@pytest.mark.parametrize("starts", [[], [0], [0, 2], [0, 2, 2, 3], [1, 3], [0, 4], [0, 2, 1, 3]])
def test_an_item_without_tokens_cannot_be_made(starts: list[int]) -> None:
    """Starts that do not grow from nothing to the number of tokens are refused."""
    with pytest.raises(ValueError, match="every item needs at least one token"):
        TokenLogits(np.zeros((3, CLASSES)), np.array(starts, np.intp))

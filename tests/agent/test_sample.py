"""The bottom-k sample: merging parts in any order is sampling the whole."""

# Hypothesis gives a random number generator without a public type.
# ruff: noqa: ANN401

from __future__ import annotations

from functools import reduce
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sample import SIZE, Sample, digests, thinned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Plain = Callable[[object], Any]

# An id and which of three contents it was delivered with.
ITEM = st.tuples(st.integers(0, 40), st.integers(0, 2))
ITEMS = st.lists(ITEM, max_size=30)
SIZES = st.integers(1, 12)

Item = tuple[int, int]


def sample_of(items: Sequence[Item], size: int) -> Sample:
    """The sample of these items, with content that tells an item's deliveries apart."""
    numbers = np.array(items, np.float64).reshape(len(items), 2)
    ids = [f"id-{number}" for number, _ in items]
    return Sample.of(ids, numbers, numbers[:, ::-1], numbers * 2, size, confidence=numbers / 64)


@given(ITEMS, ITEMS, ITEMS, SIZES)
def test_merge_is_associative(plain: Plain, a: list[Item], b: list[Item], c: list[Item], size: int) -> None:
    """It does not matter which samples are merged first."""
    one, two, three = (sample_of(items, size) for items in (a, b, c))
    assert plain(one.merge(two).merge(three)) == plain(one.merge(two.merge(three)))


@given(ITEMS, ITEMS, SIZES)
def test_merge_is_commutative(plain: Plain, a: list[Item], b: list[Item], size: int) -> None:
    """It does not matter which sample is merged into which, even where an id came with different contents."""
    one, two = sample_of(a, size), sample_of(b, size)
    assert plain(one.merge(two)) == plain(two.merge(one))


@given(ITEMS, SIZES)
def test_merge_is_idempotent(plain: Plain, items: list[Item], size: int) -> None:
    """A sample merged with itself, or with a part of itself delivered again, is itself."""
    whole = sample_of(items, size)
    assert plain(whole.merge(whole)) == plain(whole)
    assert plain(whole.merge(sample_of(items[::2], size))) == plain(whole)


@given(ITEMS, SIZES)
def test_the_empty_sample_changes_nothing(plain: Plain, items: list[Item], size: int) -> None:
    """A part without items is neutral on either side."""
    whole, empty = sample_of(items, size), sample_of([], size)
    assert plain(whole.merge(empty)) == plain(empty.merge(whole)) == plain(whole)


@given(ITEMS, st.lists(st.integers(0, 3), min_size=30, max_size=30), st.randoms(), SIZES)
def test_parts_merge_to_the_whole(
    plain: Plain,
    items: list[Item],
    replicas: list[int],
    random: Any,
    size: int,
) -> None:
    """Items scattered over replicas, shuffled and merged, give the sample of all of them at once."""
    shuffled = random.sample(items, len(items))
    merged = sample_of([], size)
    for replica in range(4):
        part = [item for item, owner in zip(shuffled, replicas, strict=False) if owner == replica]
        merged = merged.merge(sample_of(part, size))
    assert plain(merged) == plain(sample_of(items, size))


@given(ITEMS, SIZES)
def test_it_holds_the_lowest_hashes_each_id_once(items: list[Item], size: int) -> None:
    """The ids are those that sorting all distinct ids by their hash would choose."""
    names = {f"id-{number}" for number, _ in items}
    by_hash = sorted(names, key=lambda name: blake2b(name.encode(), digest_size=8).digest()[::-1])
    sample = sample_of(items, size)
    assert sample.ids.tolist() == by_hash[:size]
    assert len(sample) == min(size, len(names))


def test_rows_stay_together() -> None:
    """After sorting, each id still has its own embedding, logits, features and confidence."""
    sample = sample_of([(number, number % 3) for number in range(40)], 10)
    for row, name in enumerate(sample.ids.tolist()):
        number = int(name.removeprefix("id-"))
        assert sample.embedding[row].tolist() == [number, number % 3]
        assert sample.logits[row].tolist() == [number % 3, number]
        assert sample.features[row].tolist() == [2 * number, 2 * (number % 3)]
        assert sample.confidence[row].tolist() == [number / 64, number % 3 / 64]


def test_deliveries_that_differ_in_confidence_alone_are_told_apart(plain: Plain) -> None:
    """Where tokens are labelled, two deliveries of one id merge to the same sample in either order."""
    one, two = (
        Sample.of(["a"], np.zeros((1, 2)), None, confidence=np.array([[raw, 0.5]])) for raw in (0.25, 0.75)
    )
    assert one.content != two.content
    assert plain(one.merge(two)) == plain(two.merge(one))


def test_confidence_is_that_of_the_logits_or_the_one_kept() -> None:
    """A classifier's is the largest probability at each temperature; a sequence labeller's was kept with it."""
    odds = np.array([[0.0, np.log(3)], [np.log(81), 0.0]])
    classified = Sample.of(["a", "b"], np.zeros((2, 1)), odds)
    assert sorted(classified.confidences(2.0)[:, 0].tolist()) == pytest.approx([3 / 4, 81 / 82])
    assert sorted(classified.confidences(2.0)[:, 1].tolist())[1] == pytest.approx(9 / 10)
    labelled = Sample.of(["a"], np.zeros((1, 1)), None, confidence=np.array([[0.75, 0.5]]))
    assert labelled.confidences(2.0).tolist() == [[0.75, 0.5]]
    assert labelled.logits.shape == (1, 0)


def test_it_is_uniform_over_ids() -> None:
    """Of 20,000 ids in ten groups each group has its share, and the highest hash tells how many ids there were."""
    ids = [f"tenant-{number % 10}/{number}" for number in range(20_000)]
    sample = Sample.of(ids, np.zeros((20_000, 1)), np.zeros((20_000, 2)))
    groups = np.bincount([int(name[7]) for name in sample.ids.tolist()], minlength=10)
    assert len(sample) == SIZE
    assert ((groups - 200) ** 2 / 200).sum() < 27.9  # chi-square with 9 degrees of freedom, 0.1 %
    estimated = (SIZE - 1) / (float(sample.hashes[-1]) / 2**64)
    assert abs(estimated / 20_000 - 1) < 0.08


def test_hashes_are_the_same_everywhere() -> None:
    """Stored samples stay mergeable: the hash of an id is what `b2sum -l 64` prints, read from its low end."""
    assert digests([b"a", "größe".encode()]).tolist() == [0x2F42665B399EF840, 0xE99A32C955E1F8F4]


def test_numbers_beyond_half_precision_stay_finite() -> None:
    """A huge feature is kept at the end of the range instead of as infinity."""
    sample = Sample.of(["a"], np.array([[1e9]]), np.array([[1.0, -1.0]]), np.array([[-1e9, 3.0]]))
    assert sample.embedding.tolist() == [[65504.0]]
    assert sample.features.tolist() == [[-65504.0, 3.0]]


@given(st.lists(ITEMS, min_size=1, max_size=6), SIZES)
def test_thinning_changes_no_window(plain: Plain, panes: list[list[Item]], size: int) -> None:
    """Thinned whenever a pane is sealed, the samples of every window since are what they would have been."""
    whole: list[Sample] = []
    kept: list[Sample] = []
    for items in panes:
        whole.insert(0, sample_of(items, size))
        kept = thinned([whole[0], *kept])
        for length in range(1, len(whole) + 1):
            assert plain(reduce(Sample.merge, kept[:length])) == plain(reduce(Sample.merge, whole[:length]))


def test_thinning_keeps_little_of_old_panes() -> None:
    """Thirty-six full panes keep a few times the items of one: about the size times the harmonic sum."""
    size, panes = 50, 36
    full = [sample_of([(1000 * pane + row, 0) for row in range(400)], size) for pane in range(panes)]
    kept = [len(sample) for sample in thinned(full)]
    assert kept[0] == size
    assert size * 3 < sum(kept) < size * 6

"""Panes as bytes: what comes back is what went in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.panes import Pane, Tally
from agent.sample import Sample
from agent.state_store.pane_blobs import pack, unpack
from tests.agent.state_bench import HOUR, pane

if TYPE_CHECKING:
    from collections.abc import Callable

IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), max_size=6, unique=True
)


@given(
    IDS,
    st.lists(st.integers(0, 2**62), min_size=7, max_size=7),
    st.integers(0, 4),
    st.integers(0, 3),
    st.sampled_from([0, 2]),
)
def test_a_pane_comes_back_exactly(  # noqa: PLR0913, PLR0917 - the parts of a pane
    plain: Callable[[object], Any],
    ids: list[str],
    counts: list[int],
    embedding: int,
    features: int,
    confidence: int,
) -> None:
    """Counts of any size, ids in any script, samples of any shape, even empty, survive packing."""
    rng = np.random.default_rng(len(ids))
    array = np.array(counts, np.int64)
    tally = Tally(*counts[:2], array, np.stack([array, array]), array, array, *counts[2:5], array)
    *parts, kept = (rng.normal(size=(len(ids), width)) for width in (embedding, 2, features, confidence))
    packed = Pane("slice", HOUR, tally, Sample.of(ids, *parts, size=5, confidence=kept))
    again = unpack("slice", HOUR, pack(packed))
    assert plain(again) == plain(packed)
    assert pack(again) == pack(packed)
    assert again.sample.embedding.dtype == np.float16


def test_a_restored_pane_merges_like_the_one_that_was_saved(plain: Callable[[object], Any]) -> None:
    """Types as well as values come back, so a restored pane takes further records."""
    kept = pane("größe 🐟", HOUR)
    again = unpack(kept.slice, kept.start, pack(kept))
    assert plain(again.merge(kept)) == plain(kept.merge(again)) == plain(kept.merge(kept))


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\2\0\0\0\0\0\0\0{}"])
def test_other_bytes_are_not_a_pane(content: bytes) -> None:
    """Nothing, noise, and a container without the arrays of a pane."""
    with pytest.raises((ValueError, KeyError)):
        unpack("slice", HOUR, content)

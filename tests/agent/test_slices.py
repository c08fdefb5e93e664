"""Slices: bounded in number and length, in the order they were first seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.slices import LONGEST, OTHER, UNTAGGED, Slices


@given(st.lists(st.text("abcdefg", min_size=1, max_size=2)), st.integers(1, 5))
def test_the_first_names_keep_their_own_slice(tags: list[str], most: int) -> None:
    """The first `most` distinct tags are slices for good; every other one is counted under `__other__`."""
    slices = Slices(most)
    names = [slices.name(tag) for tag in tags]
    first = list(dict.fromkeys(tags))[:most]
    assert names == [tag if tag in first else OTHER for tag in tags]
    assert slices.known == tuple(first)


def test_records_without_a_tag_are_the_default_slice() -> None:
    """No tag and an empty tag take no place among the slices."""
    slices = Slices(1)
    assert [slices.name(None), slices.name("")] == [UNTAGGED, UNTAGGED]
    assert slices.known == ()


def test_long_tags_are_cut() -> None:
    """Tags that agree in their first 64 characters are one slice."""
    slices = Slices(2)
    assert slices.name("x" * 64 + "y") == slices.name("x" * 200) == "x" * LONGEST
    assert len(slices.known) == 1


def test_known_names_come_back_in_their_order() -> None:
    """Slices taken up from an earlier run keep their places."""
    slices = Slices(2, ["b", "a"])
    assert [slices.name(tag) for tag in ("c", "a", "b")] == [OTHER, "a", "b"]
    assert slices.known == ("b", "a")

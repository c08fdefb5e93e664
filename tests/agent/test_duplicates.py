"""Second deliveries: what is remembered, for how long, and across a restart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.duplicates import Seen

names = st.lists(st.sampled_from("abcdef"), max_size=60)


@given(names=names, remember=st.integers(1, 5), cut=st.integers(0, 60))
def test_the_newest_names_are_remembered(names: list[str], remember: int, cut: int) -> None:
    """A name is new unless it is among the last that were new; a snapshot goes on where it was taken."""
    seen, order = Seen(remember), list[str]()
    for place, name in enumerate(names):
        if place == cut:
            restored = Seen(remember)
            restored.restore(seen.snapshot())
            seen = restored
        new = name not in order[-remember:]
        assert seen.add(name) == new
        if new:
            order.append(name)
        assert len(seen) == min(len(order), remember)


@given(names=names, every=st.integers(1, 9))
def test_what_was_added_is_told_once(names: list[str], every: int) -> None:
    """The additions taken now and then are together all that is remembered, oldest first."""
    seen, taken = Seen(100), list[int]()
    for place, name in enumerate(names):
        seen.add(name)
        if place % every == 0:
            taken += seen.take_added()
    assert tuple(taken + seen.take_added()) == seen.snapshot()
    assert seen.take_added() == []

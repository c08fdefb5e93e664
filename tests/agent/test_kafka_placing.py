"""Where a partition is read from."""

from __future__ import annotations

import pytest

from agent.sources.kafka.placing import Committed, Found, Partition, Rules, place

HERE = Partition("traffic", "new", 1)
RULES = Rules("ours", "latest", "earliest")
LOG = Found(first=10, end=100)


def found(offset: int, owner: str) -> Found:
    """The log with something committed."""
    return Found(LOG.first, LOG.end, Committed(offset, owner))


@pytest.mark.parametrize(
    ("stored", "seen", "offset", "events"),
    [
        (50, LOG, 50, ()),
        (50, found(80, "ours"), 50, ()),
        (50, found(40, "ours"), 50, ()),
        (50, found(80, "theirs"), 80, ()),
        (50, found(40, "theirs"), 50, ("overlap",)),
        (None, found(40, "theirs"), 40, ()),
        (None, found(40, "ours"), 40, ()),
        (None, LOG, 100, ()),
        (100, LOG, 100, ()),
        (10, LOG, 10, ()),
        (9, LOG, 10, ("out_of_range",)),
        (101, LOG, 10, ("out_of_range",)),
        (50, found(5, "theirs"), 50, ("overlap",)),
        (None, found(5, "theirs"), 10, ("out_of_range",)),
        (50, Found(10, 100, gone=True), 10, ("out_of_range",)),
    ],
)
def test_own_position_holds_unless_another_replica_went_further(
    stored: int | None, seen: Found, offset: int, events: tuple[str, ...]
) -> None:
    """The state's position is the truth, but for a later commit of another replica; nothing is reset silently."""
    positions = {} if stored is None else {HERE.key: stored}
    placement = place(HERE, positions, seen, RULES)
    assert (placement.offset, placement.events) == (offset, events)


@pytest.mark.parametrize(("policy", "offset"), [("earliest", 10), ("latest", 100), ("stop", None)])
def test_policy_decides_where_the_position_is_not_in_the_log(policy: str, offset: int | None) -> None:
    """Out of range and in a topic made anew, the configured policy is followed, and the event says so."""
    rules = Rules("ours", "latest", policy)  # type: ignore[arg-type]
    out_of_range = place(HERE, {HERE.key: 3}, LOG, rules)
    recreated = place(HERE, {"traffic@old:1": 50}, LOG, rules)
    assert (out_of_range.offset, out_of_range.events, out_of_range.wanted) == (offset, ("out_of_range",), 3)
    assert (recreated.offset, recreated.events) == (offset, ("topic_recreated",))


@pytest.mark.parametrize(
    ("stored", "recreated"),
    [
        ({}, False),
        ({"traffic@new:1": 5, "traffic@old:1": 7}, False),
        ({"traffic@old:1": 7}, True),
        ({"traffic:1": 7}, True),
        ({"traffic@old:0": 7}, True),
        ({"traffic@new:0": 7}, False),
        ({"traffic@new:0": 7, "traffic@old:0": 9}, False),
        ({"traffic@new:0": 7, "traffic@old:1": 9}, True),
        ({"traffic2@old:1": 7, "my-traffic@old:1": 7}, False),
    ],
)
def test_recreated_topic_is_told_from_a_new_partition(stored: dict[str, int], *, recreated: bool) -> None:
    """Positions of another incarnation show a topic made anew; a partition added to the topic we know is new."""
    assert HERE.recreated(stored) is recreated


def test_commit_of_another_replica_to_the_recreated_topic_counts() -> None:
    """Another replica that was first in the new topic is followed; what we committed was to the old one."""
    stored = {"traffic@old:1": 50}
    assert place(HERE, stored, found(70, "theirs"), RULES).offset == 70
    assert place(HERE, stored, found(70, "ours"), RULES).events == ("topic_recreated",)


def test_only_our_own_commit_needs_no_repeating() -> None:
    """What another replica committed is not yet confirmed for our state."""
    assert place(HERE, {HERE.key: 80}, found(80, "ours"), RULES).confirmed == 80
    assert place(HERE, {HERE.key: 80}, found(80, "theirs"), RULES).confirmed is None

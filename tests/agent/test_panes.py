"""Panes: exact counts and sums, so that parts merge to exactly the whole."""

# Hypothesis gives a random number generator without a public type, and its strategies come as arguments.
# ruff: noqa: ANN401, PLR0913, PLR0917

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.panes import DEPTH_EDGES, P_EDGES, UNIT, Pane, Tally, bucket_counts, units
from agent.records import Record
from agent.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from agent.reference import Reference
    from agent.scorer import Scored

    Score = Callable[[Sequence[Record]], Scored]
    Plain = Callable[[object], Any]


TENANTS = ("a", "b")
# Three panes of two slices; record 7 and 8, 21 and 22 share an id.
RECORDS = [
    Record(
        f"id-{number - number % 7 // 6}", f"good film {number % 4}", 40.0 * (number % 5), slice=TENANTS[number % 2]
    )
    for number in range(30)
]


def counted(values: Sequence[float], edges: tuple[float, ...]) -> NDArray[np.int64]:
    """The buckets of one row in one group."""
    return bucket_counts(np.array([values]), edges, np.zeros(len(values), np.intp), 1)[0, 0]


def total_of(values: NDArray[np.floating]) -> int:
    """The fixed-point sum."""
    return int(units(values).sum())


def below(value: float) -> float:
    """The largest number less than this one."""
    return float(np.nextafter(value, -np.inf))


@pytest.mark.parametrize(
    ("p", "bucket"),
    [(1e-9, 0), (0.001, 0), (0.0011, 1), (below(0.05), 4), (0.05, 4), (math.nextafter(0.05, 1), 5), (1.0, 14)],
)
def test_a_p_value_falls_at_or_below_its_edge(p: float, bucket: int) -> None:
    """Edges belong to the bucket they end."""
    assert counted([p], P_EDGES).tolist() == [int(place == bucket) for place in range(len(P_EDGES))]


@pytest.mark.parametrize(("depth", "bucket"), [(0.0, 0), (0.05, 0), (0.051, 1), (2.0, 39), (2.0000001, 39)])
def test_a_depth_above_the_last_edge_is_kept_in_the_last_bucket(depth: float, bucket: int) -> None:
    """Rounding may lift a depth above 2; it is counted all the same."""
    assert counted([depth], DEPTH_EDGES).argmax() == bucket
    assert len(DEPTH_EDGES) == 40


@given(st.lists(st.floats(-1000, 1000), max_size=50), st.randoms())
def test_fixed_sums_do_not_depend_on_order(values: list[float], random: Any) -> None:
    """However the values are split and shuffled, the sum is the same integer, and near the exact sum."""
    shuffled = random.sample(values, len(values))
    cut = random.randint(0, len(values))
    total = total_of(np.array(values))
    assert total == total_of(np.array(shuffled[:cut])) + total_of(np.array(shuffled[cut:]))
    assert abs(total / UNIT - math.fsum(values)) <= len(values) / UNIT


def test_fixed_sums_have_room_for_a_million_values_of_a_thousand() -> None:
    """No pane of one batch comes near the end of 64 bits."""
    assert total_of(np.full(1_000_000, 1000.0)) == 10**9 * UNIT
    assert total_of(np.full(1_000_000, -1000.0, np.float32)) == -(10**9) * UNIT


def panes_of(summary: Summary, score: Score, records: Sequence[Record]) -> list[Pane]:
    """The panes of one batch."""
    return summary.panes(records, [record.slice or "default" for record in records], score(records))


def merged(parts: Sequence[Pane]) -> dict[tuple[str, int], Pane]:
    """Parts of panes, merged by pane in the order they come."""
    whole: dict[tuple[str, int], Pane] = {}
    for part in parts:
        key = (part.slice, part.start)
        whole[key] = whole[key].merge(part) if key in whole else part
    return whole


@given(
    order=st.permutations(range(len(RECORDS))),
    replicas=st.lists(st.integers(0, 2), min_size=len(RECORDS), max_size=len(RECORDS)),
    size=st.integers(1, 12),
)
def test_replicas_and_batches_add_up_to_one_process(
    reference: Reference, score: Score, plain: Plain, order: list[int], replicas: list[int], size: int
) -> None:
    """A stream in any order, over any replicas, in batches of any size, gives exactly the panes of the whole."""
    summary = Summary(reference, 60, sample=6)
    parts: list[Pane] = []
    for replica in range(3):
        own = [RECORDS[row] for row, owner in zip(order, replicas, strict=True) if owner == replica]
        for start in range(0, len(own), size):
            parts += panes_of(summary, score, own[start : start + size])
    assert plain(merged(parts)) == plain(merged(panes_of(summary, score, RECORDS)))


@given(st.permutations(range(6)))
def test_merging_panes_is_associative_and_commutative(
    reference: Reference, score: Score, plain: Plain, order: list[int]
) -> None:
    """The parts of one pane can be merged in any order and any grouping."""
    summary = Summary(reference, 3600, sample=6)
    records = [Record(record.id, record.text, 0.0) for record in RECORDS]
    a, b, c, d, e, f = ([panes_of(summary, score, records[row::6])[0] for row in range(6)][row] for row in order)
    assert plain(a.merge(b).merge(c).merge(d).merge(e.merge(f))) == plain(
        f.merge(e.merge(d.merge(c.merge(b.merge(a)))))
    )


@pytest.mark.parametrize("other", [("a", 60), ("b", 0)])
def test_only_parts_of_one_pane_merge(reference: Reference, score: Score, other: tuple[str, int]) -> None:
    """Another slice, or another piece of time, is refused."""
    (pane,) = panes_of(Summary(reference, 60), score, [Record("x", "film", 0.0, slice="a")])
    with pytest.raises(ValueError, match="only parts of the same pane"):
        pane.merge(Pane(*other, pane.tally, pane.sample))


def tally_of(items: int, flagged: tuple[int, int]) -> Tally:
    """A tally in which these many items of two detectors have p = 0.05, and the others p = 0.06."""
    p_counts = np.stack([counted([0.05] * n + [0.06] * (items - n), P_EDGES) for n in flagged])
    counts = np.zeros(2, np.int64)
    return Tally(items, 0, counts, p_counts, counts, counts, 0, 0, 0, counts)


def test_the_ood_ratio_counts_p_values_up_to_exactly_a_twentieth() -> None:
    """p = 0.05 is out of distribution, p = 0.06 is not."""
    assert tally_of(8, (8, 2)).ood_ratios(("knn", "msp")) == {"knn": 1.0, "msp": 0.25}


def test_nothing_has_no_mean() -> None:
    """Without items ratios and means are NaN, not zero and not an error."""
    empty = tally_of(0, (0, 0))
    assert math.isnan(empty.mean(0))
    assert all(math.isnan(ratio) for ratio in empty.ood_ratios(("knn", "msp")).values())

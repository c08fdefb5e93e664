"""How deep the items lie, of the source and of a window: counts in the same buckets."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.assembly import shape_of
from agent.batch import Batch
from agent.panes import DEPTH_EDGES
from agent.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.reference import Reference
    from agent.scorer import Scored
    from agent.state import State


def test_the_source_is_counted_whole(reference: Reference) -> None:
    """Every source item is in the bucket of the lowest bound not below its depth; the last takes what is above."""
    depths = np.array([0.0, 0.05, 0.051, 1.0, 2.0, 2.5])
    shape = shape_of(replace(reference, source=replace(reference.source, depths=depths, accuracy={"test": 0.9})))
    assert shape.depth_edges == DEPTH_EDGES
    assert sum(shape.depth_counts) == len(depths)
    filled = {DEPTH_EDGES[place]: count for place, count in enumerate(shape.depth_counts) if count}
    assert filled == {0.05: 2, 0.1: 1, 1.0: 1, 2.0: 2}
    assert shape.accuracy == pytest.approx(0.9)


def test_a_source_without_test_rows_has_no_known_accuracy(reference: Reference) -> None:
    """What was not measured is NaN."""
    assert isnan(shape_of(reference).accuracy)


def test_a_window_counts_its_items_by_depth_if_they_are_enough(
    new_state: Callable[..., State], score: Callable[..., Scored]
) -> None:
    """Where there are ratios there are as many depths as items; with too few items there are none."""
    state = new_state()
    times = [("a", 0.0), ("a", 1.0), ("a", 2.0), ("a", 3.0), ("b", 1.0)]
    records = [Record(f"id-{row}", "good film", time, slice=name) for row, (name, time) in enumerate(times)]
    batch = Batch(tuple(records))
    state.receive(batch)
    state.add(records, score(records))
    closed = {(each.slice, each.enough): each.depth_counts for each in state.close_windows(0.0, finished=True)}
    assert len(closed["a", True]) == len(DEPTH_EDGES)
    assert sum(closed["a", True]) == 4
    assert closed["b", False] == ()

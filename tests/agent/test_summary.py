"""From scored records to panes: who goes where, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.panes import UNIT
from agent.records import Record
from agent.summary import Summary
from agent.token_outputs import TokenLogits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.reference import Reference
    from agent.scorer import Scored

    Score = Callable[[Sequence[Record]], Scored]


@pytest.mark.parametrize(
    ("time", "start"), [(0.0, 0), (599.999, 0), (600.0, 600), (1_767_225_600.5, 1_767_225_600), (86_399, 85_800)]
)
def test_panes_are_aligned_to_the_epoch(reference: Reference, time: float, start: int) -> None:
    """A moment falls into the multiple of the pane's length at or before it."""
    assert Summary(reference, 600).start(time) == start


def test_records_are_grouped_by_slice_and_time(reference: Reference, score: Score) -> None:
    """One pane for each slice and minute that occurs, each with its own records and no other."""
    times = [(5.0, "b"), (65.0, "a"), (59.0, "b"), (119.9, "a"), (60.0, "b")]
    records = [Record(f"{row}", "film", time, slice=name) for row, (time, name) in enumerate(times)]
    panes = Summary(reference, 60).panes(records, [name for _, name in times], score(records))
    assert {(pane.slice, pane.start): sorted(pane.sample.ids.tolist()) for pane in panes} == {
        ("a", 60): ["1", "3"],
        ("b", 0): ["0", "2"],
        ("b", 60): ["4"],
    }
    assert [pane.tally.items for pane in panes] == [2, 2, 1]


def test_a_tally_counts_what_was_scored(reference: Reference, score: Score) -> None:
    """Counts and sums are those of the scored rows, detectors in the reference's order."""
    records = [Record(f"{row}", "good film, unheard of" if row % 3 else "bad", 0.0) for row in range(25)]
    scored = score(records)
    (pane,) = Summary(reference, 60).panes(records, ["default"] * 25, scored)
    tally = pane.tally
    assert (tally.items, tally.truncated) == (25, int(scored.truncated.sum())) == (25, 16)
    assert tally.classes.tolist() == np.bincount(scored.predicted, minlength=2).tolist()
    assert tally.words.tolist() == [16, 9, 16, 32]
    for row, name in enumerate(reference.detectors):
        assert tally.p_counts[row, :5].sum() == (scored.p[name] <= 0.05).sum()
        assert tally.p_counts[row].sum() == 25
        assert tally.p_sums[row] / UNIT == pytest.approx(scored.p[name].sum())
    assert tally.depth_counts.sum() == 25
    assert tally.mean(tally.depth_sum) == pytest.approx(scored.scores["depth"].mean())
    assert tally.mean(tally.rank_sum) == pytest.approx(scored.ranks.mean())
    assert tally.mean(tally.confidence_sum) == pytest.approx(scored.confidence.mean())


def test_a_sequence_labellers_pane(reference: Reference, score: Score) -> None:
    """Classes count tokens; items are items; the sample keeps the confidences that it has no logits for."""
    records = [Record(f"{row}", "dogs bark", 60.0 * (row % 2)) for row in range(4)]
    scored = score(records)
    logits = [np.array([[2.0, 0.0]] * (row + 1) + [[0.0, 1.0]]) for row in range(4)]
    tokens = TokenLogits.of(logits)
    labelled = replace(
        scored,
        outputs=replace(scored.outputs, logits=None),
        tokens=tokens,
        confidence=tokens.confidence(2.0),
        raw_confidence=tokens.confidence(),
    )
    odd = Summary(reference, 60).panes(records, ["default"] * 4, labelled)[1]
    assert (odd.tally.items, odd.tally.classes.tolist()) == (2, [2 + 4, 2])
    assert odd.tally.mean(odd.tally.confidence_sum) == pytest.approx(tokens.confidence(2.0)[[1, 3]].mean())
    assert odd.sample.logits.shape == (2, 0)
    for row, name in enumerate(odd.sample.ids.tolist()):
        assert odd.sample.confidence[row].tolist() == pytest.approx(tokens.confidences(2.0)[int(name)].tolist())
    again = labelled.take([3, 1])
    assert again.predicted.tolist() == [0, 0, 0, 0, 1, 0, 0, 1]
    assert len(again) == len(again.raw_confidence) == 2


def test_a_classifiers_sample_keeps_no_confidence(reference: Reference, score: Score) -> None:
    """Its logits give it at any temperature."""
    records = [Record("1", "film", 0.0)]
    (pane,) = Summary(reference, 60).panes(records, ["default"], score(records))
    assert (pane.sample.confidence.shape, pane.sample.logits.shape) == ((1, 0), (1, 2))


def test_nothing_gives_no_panes(reference: Reference, score: Score) -> None:
    """A batch whose records were all late or rejected leaves no pane behind."""
    assert Summary(reference, 60).panes([], [], score([])) == []


def test_features_are_kept_unless_they_are_the_embeddings(reference: Reference, score: Score) -> None:
    """The sample has the features of a model that gives them, and no second copy of the embeddings."""
    records = [Record("1", "film", 0.0)]
    scored = score(records)
    given = replace(scored.outputs, features=np.array([[7.0, 8.0]]))
    twice = replace(scored.outputs, features=scored.outputs.embedding)
    for outputs, expected in ((given, [[7.0, 8.0]]), (twice, [[]]), (scored.outputs, [[]])):
        (pane,) = Summary(reference, 60).panes(records, ["default"], replace(scored, outputs=outputs))
        assert pane.sample.features.tolist() == expected

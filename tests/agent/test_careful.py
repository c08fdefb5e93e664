"""Careful scoring: the record that the models break on is lost alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.careful import Careful
from agent.errors import InferenceError
from agent.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.scorer import Scored


class Fragile:
    """Scores as `score` does, and breaks on any batch with a text of poison; counts what it was asked."""

    def __init__(self, score: Callable[[Sequence[Record]], Scored]) -> None:
        self.score = score
        self.asked = 0

    def __call__(self, records: Sequence[Record]) -> Scored:
        """Scored, or InferenceError."""
        self.asked += 1
        if any("poison" in record.text for record in records):
            raise InferenceError("broken")
        return self.score(records)


@given(poison=st.sets(st.integers(0, 15), max_size=4))
def test_only_the_poison_is_lost(score: Callable[[Sequence[Record]], Scored], poison: set[int]) -> None:
    """Whatever records the models break on, just these are marked; the others have the scores they have alone."""
    records = [Record(f"{row}", "poison" if row in poison else f"film {row}", 0.0) for row in range(16)]
    fragile = Fragile(score)
    scored = Careful(fragile)(records)
    assert [row for row, finite in enumerate(scored.finite) if not finite] == sorted(poison)
    for row in set(range(16)) - poison:
        alone = score([records[row]])
        assert all(scored.scores[name][row] == alone.scores[name][0] for name in scored.scores)
    assert fragile.asked <= 2 + 2 * len(poison) * 5
    assert fragile.asked == 1 or poison


def test_models_that_break_on_anything_end_the_agent(score: Callable[[Sequence[Record]], Scored]) -> None:
    """If even a harmless text breaks the models, no record is to blame, and the error goes up."""

    def broken(records: Sequence[Record]) -> Scored:
        raise InferenceError(f"{len(records)}")

    with pytest.raises(InferenceError):
        Careful(broken)([Record("1", "film", 0.0), Record("2", "film", 0.0)])
    assert len(Careful(score)([Record("1", "film", 0.0)])) == 1

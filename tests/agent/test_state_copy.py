"""Reading what a state holds while an agent uses it: a copy of the newest checkpoint, and nothing is touched."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agent.checkpoints import Checkpoints, held_alone
from agent.errors import ArtefactError, UsageError
from agent.state_store.copy import read_copy
from tests.agent.state_bench import OWNER, filled
from tests.agent.test_checkpoints_inspect import changed, cut, newer, saved, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_state_in_use_can_be_read(tmp_path: Path) -> None:
    """An agent that holds it and has it open goes on; what was saved last is found, in its log or not."""
    path = tmp_path / "state.db"
    with held_alone(path), closing(Checkpoints(path, 10, OWNER)) as store:
        parts = filled(0, 3)
        store.save(parts)
        content = read_copy(path, OWNER)
        assert {(pane.slice, pane.start) for pane in content.panes} == set(parts.windows.panes)
        assert {text.key for text in content.texts} == set(parts.texts.kept)
        assert content.sealed_until == parts.windows.sealed_until
        store.save(filled(0, 4))


def test_a_state_at_rest_is_left_as_it_is(tmp_path: Path) -> None:
    """No file of it changes."""
    path = tmp_path / "state.db"
    saved(path)
    before = snapshot(tmp_path)
    assert read_copy(path, OWNER).panes
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("make", "owner", "complaint"),
    [
        (cut, OWNER, "state.db"),
        (changed, OWNER, "state.db: it is damaged"),
        (newer, OWNER, "state.db: "),
        (saved, "another", "state.db: "),
    ],
)
def test_a_state_that_cannot_be_used_is_an_error(
    tmp_path: Path, make: Callable[[Path], None], owner: str, complaint: str
) -> None:
    """Cut short, changed, of a later version, or another owner's: the error names the file."""
    path = tmp_path / "state.db"
    make(path)
    with pytest.raises(ArtefactError, match=complaint):
        read_copy(path, owner)


def test_no_state_is_said_plainly(tmp_path: Path) -> None:
    """No agent has run yet; a directory is no state."""
    with pytest.raises(UsageError, match="no agent has run with this configuration yet"):
        read_copy(tmp_path / "none.db", OWNER)
    with pytest.raises(UsageError, match=r"state\.path"):
        read_copy(tmp_path, OWNER)
    assert list(tmp_path.iterdir()) == []

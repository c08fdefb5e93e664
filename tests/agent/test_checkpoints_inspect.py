"""What `leadline check` says of a state: what a start would do, with nothing changed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agent.checkpoints import Checkpoints, held_alone
from agent.errors import ArtefactError, LeadlineError, UsageError
from agent.state_store.inspection import Notice, inspect
from tests.agent.state_bench import GOLDEN, OWNER, filled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def saved(path: Path) -> None:
    """Leave a state there."""
    with closing(Checkpoints(path, 10, OWNER)) as store:
        store.save(filled(0, 1))


def cut(path: Path) -> None:
    """Cut a state short."""
    saved(path)
    path.write_bytes(path.read_bytes()[:9000])


def changed(path: Path) -> None:
    """Change a row of a state."""
    saved(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE positions SET position = 0")


def newer(path: Path) -> None:
    """A state of a later version."""
    shutil.copyfile(GOLDEN / "schema-2.sqlite", path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE facts SET value = '99' WHERE name = 'schema'")


def orphan(path: Path) -> None:
    """A log without its database."""
    path.with_name(f"{path.name}-wal").write_bytes(b"x" * 100)


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its content and when it was changed."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(root.iterdir())}


@pytest.mark.parametrize(
    ("make", "owner", "found", "reason"),
    [
        (saved, "reference b, panes of 60 s", "it was written for another reference, source, pane", "other_owner"),
        (cut, OWNER, "it is damaged: ", "truncated"),
        (changed, OWNER, "it is damaged: a row of its table 'positions' has changed", "corrupt"),
        (newer, OWNER, "it has schema version 99, and this version of Leadline knows 4 at most", "future_version"),
        (orphan, OWNER, "its database file is gone, its write-ahead log is there", "truncated"),
    ],
)
def test_it_says_what_would_be_put_aside_and_touches_nothing(
    tmp_path: Path, make: Callable[[Path], None], owner: str, found: str, reason: str
) -> None:
    """The error names what is wrong, where it would go, and what that means; the files stay as they are."""
    path = tmp_path / "state.db"
    make(path)
    before = snapshot(tmp_path)
    with pytest.raises(ArtefactError) as caught:
        inspect(path, owner)
    said = str(caught.value)
    assert said.startswith(f"state.path: {path}: {found}")
    assert said.endswith(
        f". `leadline run` would put it aside as state.db.quarantine-…-{reason} and start afresh: the history of "
        "the windows is lost; reading goes on from what the broker has committed, or from the file's beginning."
    )
    assert snapshot(tmp_path) == before


def test_a_new_reference_is_to_be_noted_and_no_error(tmp_path: Path) -> None:
    """Where nothing but the reference differs a person has changed it: it says what is lost by that."""
    path = tmp_path / "state.db"
    with closing(Checkpoints(path, 10, "a1, panes of 60 s by slice, from HTTP")) as store:
        store.save(filled(0, 1))
    before = snapshot(tmp_path)
    told = inspect(path, "b2, panes of 60 s by slice, from HTTP")
    assert isinstance(told, Notice)
    assert told.startswith(f"{path} was written for another reference, and a new one begins new windows: ")
    assert "puts this state aside as state.db.quarantine-…-other_owner and starts afresh" in told
    with pytest.raises(ArtefactError):
        inspect(path, "b2, panes of 600 s by slice, from HTTP")
    assert not isinstance(inspect(path, "a1, panes of 60 s by slice, from HTTP"), Notice)
    assert snapshot(tmp_path) == before
    with closing(Checkpoints(path, 10, "a1, panes of 60 s by slice, from HTTP")), held_alone(path):
        assert inspect(path, "b2, panes of 60 s by slice, from HTTP") == told
        assert inspect(path, "a1, panes of 60 s by slice, from HTTP").endswith("which an agent is using now")


def test_it_says_what_would_be_gone_on_from(tmp_path: Path) -> None:
    """A state that is whole, even one with a log, or of an older version; nothing is made or carried over."""
    path, older = tmp_path / "state.db", tmp_path / "older.db"
    shutil.copyfile(GOLDEN / "schema-2.sqlite", older)
    with closing(Checkpoints(path, 10, OWNER)) as store:
        store.save(filled(0))
        before = snapshot(tmp_path)
        assert inspect(path, OWNER) == f"goes on from {path}"
        assert inspect(older, OWNER) == f"goes on from {older}"
        assert snapshot(tmp_path) == before


def test_a_running_agent_is_left_in_peace(tmp_path: Path) -> None:
    """Its files change while they are read, so nothing is said of them but that they are in use."""
    path = tmp_path / "state.db"
    saved(path)
    with held_alone(path):
        assert inspect(path, OWNER) == f"goes on from {path}, which an agent is using now"
        assert inspect(path, OWNER) == f"goes on from {path}, which an agent is using now"


def test_a_state_yet_to_be_made(tmp_path: Path) -> None:
    """It says where it would be, makes nothing, and finds out whether it could be made."""
    assert inspect(tmp_path / "deep" / "state.db", OWNER) == f"starts afresh in {tmp_path}/deep/state.db"
    assert not list(tmp_path.iterdir())
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageError, match=r"cannot be made: .*file is not a directory that can be written to"):
        inspect(file / "state.db", OWNER)


def test_what_a_start_refuses_is_refused(tmp_path: Path) -> None:
    """A directory, a text, a stranger's database: the errors of a start, with the path that was given."""
    text, stranger = tmp_path / "text", tmp_path / "stranger.db"
    text.write_text("no database " * 99)
    with closing(sqlite3.connect(stranger)) as database, database:
        database.execute("CREATE TABLE customers (name TEXT)")
    for path in (tmp_path, text, stranger):
        with pytest.raises(LeadlineError) as started:
            Checkpoints(path, 10, OWNER)
        with pytest.raises(UsageError) as checked:
            inspect(path, OWNER)
        assert str(checked.value) == str(started.value)

"""A state that belongs to another reference or source: its open episodes end, and none of its texts is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from agent.alert_report import Outcome
from agent.checkpoints import Checkpoints
from tests.agent.state_bench import GOLDEN, HOUR, OWNER, Parts, filled, held

if TYPE_CHECKING:
    from pathlib import Path

NEXT = "reference b"


def written(path: Path) -> Parts:
    """A state with an open episode, texts, and a half that waits; on the disk."""
    parts = filled(0, 1, 2, 3)
    assert [episode.open for episode in parts.decision.decided.episodes] == [True]
    assert parts.texts.kept
    assert len(parts.pairing)
    with closing(Checkpoints(path, 10, OWNER)) as store:
        store.save(parts)
    return parts


def begun(path: Path, owner: str = NEXT) -> Parts:
    """What the next owner goes on from."""
    parts = Parts()
    with capture_logs(), closing(Checkpoints(path, 10, owner, lambda: HOUR + 9.0)) as store:
        store.restore(parts)
    return parts


def test_open_episodes_end_in_the_new_state(tmp_path: Path) -> None:
    """As superseded, now; so that who was told of them is told of their end, after a crash at once too."""
    (before,) = written(tmp_path / "state.db").decision.decided.episodes
    for _ in range(2):
        (after,) = begun(tmp_path / "state.db").decision.decided.episodes
        assert (after.id, after.slice, after.fired) == (before.id, before.slice, before.fired)
        assert (after.outcome, after.resolved) == (Outcome.SUPERSEDED, HOUR + 9.0)
    assert begun(tmp_path / "state.db", "reference c").decision.decided.episodes == ()  # it was told


def test_nothing_else_is_carried_over(tmp_path: Path) -> None:
    """Panes, positions and evidence are another reference's."""
    written(tmp_path / "state.db")
    new, fresh = held(begun(tmp_path / "state.db")), held(Parts())
    assert new.pop("episodes") != fresh.pop("episodes")
    assert new == fresh


def test_no_file_holds_a_text_that_the_state_had(tmp_path: Path) -> None:
    """Neither the database that is put aside nor its log: nobody would delete them when their time is over."""
    path = tmp_path / "state.db"
    written(path)
    kept, waiting = b"text of", rb"\u00e9t\u00e9"
    assert kept in path.read_bytes()
    assert waiting in path.read_bytes()
    with closing(sqlite3.connect(path)) as reader:  # keeps the log beside the database
        reader.execute("SELECT count(*) FROM panes").fetchone()
        begun(path)
    contents = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert any("other_owner" in name for name in contents)
    assert not [name for name, content in contents.items() if kept in content or waiting in content]


def test_put_back_it_is_whole_without_its_texts(tmp_path: Path) -> None:
    """Its rows still add up."""
    path = tmp_path / "state.db"
    before = held(written(path))
    begun(path)
    (aside,) = tmp_path.glob("*-other_owner")
    aside.rename(path)
    assert held(begun(path, OWNER)) == before | {"texts": {}, "halves": ()}


def test_states_of_earlier_schema_versions_are_emptied_too(tmp_path: Path) -> None:
    """Their halves hold text as well."""
    for golden in sorted(GOLDEN.glob("*.sqlite")):
        path = tmp_path / golden.stem / "state.db"
        path.parent.mkdir()
        path.write_bytes(golden.read_bytes())
        begun(path)
        (aside,) = path.parent.glob("*-other_owner")
        with closing(sqlite3.connect(aside)) as database:
            assert database.execute("SELECT count(*) FROM halves").fetchone() == (0,)


def test_a_damaged_state_of_another_owner_is_put_aside_as_damaged(tmp_path: Path) -> None:
    """As it is, for a person to look at; nothing is carried over from it."""
    path = tmp_path / "state.db"
    written(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE episodes SET content = '{}'")
    assert begun(path).decision.decided.episodes == ()
    assert len(list(tmp_path.glob("*-corrupt"))) == 1

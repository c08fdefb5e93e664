"""A state that cannot be used: put aside and begun anew, never read wrongly, never a crash at every start."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from agent.checkpoints import Checkpoints
from agent.errors import UsageError
from tests.agent.state_bench import HOUR, OWNER, Parts, filled, held, step

if TYPE_CHECKING:
    from pathlib import Path

# A state's files, as they lie on the disk, by suffix.
Files = Mapping[str, bytes]
SUFFIXES = ("", "-wal", "-journal", ".lock")


def files_of(path: Path) -> Files:
    """What lies on the disk."""
    return {
        suffix: path.with_name(path.name + suffix).read_bytes()
        for suffix in SUFFIXES
        if path.with_name(path.name + suffix).exists()
    }


def laid(root: Path, number: int, files: Files) -> Path:
    """These files in a directory of their own."""
    path = root / str(number) / "state.db"
    path.parent.mkdir()
    for suffix, content in files.items():
        path.with_name(path.name + suffix).write_bytes(content)
    return path


def start(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """What an agent that starts here goes on from, and why it put a state aside, if it did."""
    parts = Parts()
    with closing(Checkpoints(path, 10, OWNER, lambda: float(HOUR))) as store:
        store.restore(parts)
        return held(parts), {reason: count for reason, count in store.quarantined.items() if count}


def goes_on(path: Path) -> None:
    """An agent that starts here can save more, and finds it again: what is damaged does not spread."""
    parts = Parts()
    with closing(Checkpoints(path, 10, OWNER)) as store:
        store.restore(parts)
        for number in (4, 5, 60):
            step(parts, number, items=20)
            store.save(parts)
    assert start(path) == (held(parts), {})


def survived(path: Path, *whole: dict[str, Any]) -> str:
    """How a start went: with an exact old state, or with a new one and the reason; from then on all is well."""
    with capture_logs():
        found, aside = start(path)
    kept = sorted(other.name for other in path.parent.glob("state.db.quarantine-*"))
    again, still_aside = start(path)
    assert not still_aside
    assert again == found
    goes_on(path)
    if not aside:
        assert found in whole
        assert not kept
        return "whole"
    ((reason, count),) = aside.items()
    assert count == 1
    assert found == held(Parts())
    assert any(name.removesuffix("-wal").endswith(f"-{reason}") for name in kept)
    return reason


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A state of four steps, closed properly: one file and its lock."""
    path = tmp_path_factory.mktemp("closed") / "state.db"
    with closing(Checkpoints(path, 10, OWNER)) as store:
        parts = filled(0, 1)
        parts.positions |= {f"gone-{number}": number for number in range(400)}
        store.save(parts)
        parts.positions = filled(0, 1).positions  # which leaves free pages
        step(parts, 2)
        step(parts, 3)
        store.save(parts)
    return files_of(path)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The same, as a kill leaves it: much of it in the write-ahead log only."""
    path, parts = tmp_path_factory.mktemp("killed") / "state.db", Parts()
    with closing(Checkpoints(path, 10, OWNER)) as store:
        for number in range(4):
            step(parts, number)
            store.save(parts)
        return files_of(path)


def checkpoints() -> list[dict[str, Any]]:
    """Everything that was ever saved into `killed`."""
    return [held(filled(*range(steps))) for steps in range(5)]


def test_cut_off_anywhere_it_is_put_aside(closed: Files, tmp_path: Path) -> None:
    """Whatever the length that is left of the file, it is put aside as truncated."""
    whole = closed[""]
    for length in range(0, len(whole), 512):
        path = laid(tmp_path, length, {**closed, "": whole[:length]})
        assert survived(path) == "truncated", length


def test_a_log_cut_off_anywhere_leaves_a_whole_checkpoint(killed: Files, tmp_path: Path) -> None:
    """At every length of the write-ahead log, what is restored is one of the checkpoints, exactly, in order.

    This is also what a power cut in the middle of a commit leaves.
    """
    log, saved, steps = killed["-wal"], checkpoints(), []
    for length in range(0, len(log) + 512, 512):
        path = laid(tmp_path, length, {**killed, "-wal": log[:length]})
        found, aside = start(path)
        assert not aside
        steps.append(saved.index(found))
    assert steps == sorted(steps)
    assert set(steps) == set(range(5))


@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_a_flipped_bit_changes_no_number(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Wherever one bit flips, an exact old state is restored, or a new one is begun."""
    files: Files = request.getfixturevalue(kind)
    rng, saved, ways = np.random.default_rng(4), checkpoints(), set()
    for number in range(300):
        suffix = "-wal" if kind == "killed" and number % 3 else ""
        content = bytearray(files[suffix])
        # The header is where a bit has the most to say.
        place = number if number < 100 else int(rng.integers(len(content)))
        content[place] ^= 1 << int(rng.integers(8))
        path = laid(tmp_path, number, {**files, suffix: bytes(content)})
        ways.add(survived(path, *(saved if kind == "killed" else saved[-1:])))
    assert ways >= {"whole", "corrupt"}


def test_no_bit_of_the_header_makes_a_state_that_can_only_be_read(closed: Files, tmp_path: Path) -> None:
    """A header that asks for too new a format looks to SQLite like a missing permission; it is damage."""
    for number in range(8 * 16, 8 * 24):
        content = bytearray(closed[""])
        content[number // 8] ^= 1 << (number % 8)
        survived(laid(tmp_path, number, {**closed, "": bytes(content)}), checkpoints()[-1])


def test_lost_and_mangled_blocks_change_no_number(killed: Files, closed: Files, tmp_path: Path) -> None:
    """Blocks of zeros or of noise, and blocks swapped, as file systems leave them after a power cut."""
    rng, saved = np.random.default_rng(5), checkpoints()
    for number in range(120):
        files, suffix = ((closed, ""), (killed, ""), (killed, "-wal"))[number % 3]
        content = bytearray(files[suffix])
        size = int(rng.choice([512, 4096]))
        one, other = (size * int(place) for place in rng.integers(len(content) // size, size=2))
        if number % 2:
            content[one : one + size] = content[other : other + size]
        else:
            content[one : one + size] = bytes(size) if number % 4 else rng.bytes(size)
        path = laid(tmp_path, number, {**files, suffix: bytes(content)})
        survived(path, *(saved if files is killed else saved[-1:]))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE panes SET content = CAST(content || 'x' AS BLOB) WHERE slice = 'tenant-a'",
        "UPDATE panes SET start = start + 60000 WHERE slice = 'tenant-a'",
        "UPDATE panes SET slice = 'tenant-b' WHERE slice = 'tenant-a'",
        "DELETE FROM panes WHERE slice = 'tenant-a'",
        "UPDATE positions SET position = position + 1 WHERE partition = 'events-0'",
        "DELETE FROM positions WHERE partition = 'events-0'",
        "UPDATE sealed SET until = 0",
        "DELETE FROM sealed",
        "UPDATE slices SET name = 'tenant-b' WHERE place = 0",
        "UPDATE halves SET content = '[]'",
        "DELETE FROM halves",
        "UPDATE seen SET digests = x'0011223344556677'",
        "UPDATE labels SET label = '\"positive\"'",
        "DELETE FROM labels WHERE number = 1",
        "UPDATE facts SET value = 'another' WHERE name = 'id'",
        "UPDATE facts SET value = 'three' WHERE name = 'schema'",
        "UPDATE facts SET value = '2' WHERE name = 'schema'",
        "UPDATE facts SET value = 'another' WHERE name = 'owner'",
        "DELETE FROM facts",
        "UPDATE whole SET row_count = row_count + 1",
        "DELETE FROM whole",
        "DROP TABLE labels",
        "PRAGMA application_id = 5",
    ],
)
def test_any_change_from_outside_is_found(closed: Files, tmp_path: Path, change: str) -> None:
    """Every table is covered: a row changed, moved or deleted behind the agent's back is damage."""
    path = laid(tmp_path, 0, closed)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change)
    assert survived(path) == "corrupt"


def test_two_states_mixed_are_found(closed: Files, tmp_path: Path) -> None:
    """A row of an older checkpoint, checksum and all, does not fit into a newer one."""
    path, older = laid(tmp_path, 0, closed), tmp_path / "older.db"
    with closing(Checkpoints(older, 10, OWNER)) as store:
        store.save(filled(0, 1))
    with closing(sqlite3.connect(path)) as database:
        database.execute("ATTACH ? AS older", (str(older),))
        database.execute("INSERT OR REPLACE INTO positions SELECT * FROM older.positions")
        database.commit()
    assert survived(path) == "corrupt"


def test_an_empty_file_is_a_lost_state(closed: Files, tmp_path: Path) -> None:
    """A new state is moved into place whole, so an empty file was cut off: beside a log, or alone."""
    for number, files in enumerate(({**closed, "": b""}, {"": b""}, {"": b"", "-wal": b"x" * 5000})):
        assert survived(laid(tmp_path, number, files)) == "truncated"


def test_a_log_without_its_database_is_not_played_into_a_new_one(killed: Files, tmp_path: Path) -> None:
    """SQLite would; the log is put aside, and a new state begun."""
    path = laid(tmp_path, 0, {"-wal": killed["-wal"]})
    assert survived(path) == "truncated"
    (aside,) = path.parent.glob("*.quarantine-*")
    assert aside.name.endswith("-truncated-wal")
    assert aside.read_bytes() == killed["-wal"]


def test_a_crash_while_a_state_is_begun_leaves_none(closed: Files, tmp_path: Path) -> None:
    """What is left of a half-made database is cleared away, and so are an empty log and a shared-memory file."""
    path = tmp_path / "state.db"
    for suffix, content in {".new": closed[""][:5000], ".new-journal": b"x", "-wal": b"", "-shm": b"x"}.items():
        path.with_name(f"state.db{suffix}").write_bytes(content)
    assert start(path) == (held(Parts()), {})
    assert {other.name for other in tmp_path.iterdir()} == {"state.db", "state.db.lock"}


def test_a_later_schema_version_is_put_aside(closed: Files, tmp_path: Path) -> None:
    """After a rollback, the older Leadline begins anew and leaves the newer state to be put back."""
    path = laid(tmp_path, 0, closed)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE facts SET value = '99' WHERE name = 'schema'")
        database.execute("DROP TABLE whole")
    assert survived(path) == "future_version"


def test_it_says_once_what_was_wrong_where_it_is_and_what_it_means(closed: Files, tmp_path: Path) -> None:
    """One line of the log holds the reason, what was found, both places, and what is lost."""
    path = laid(tmp_path, 0, closed)
    with capture_logs() as logs, closing(Checkpoints(path, 10, "reference b", lambda: HOUR + 0.5)) as store:
        assert store.quarantined == {"corrupt": 0, "truncated": 0, "future_version": 0, "other_owner": 1}
        assert store.upkeep().quarantined == store.quarantined
        assert store.id
    aside = f"{path}.quarantine-20260101T000000.500000Z-other_owner"
    assert logs == [
        {
            "event": "state put aside, a new one is begun",
            "log_level": "error",
            "reason": "other_owner",
            "found": "it was written for another reference, source, pane length or slice field",
            "path": str(path),
            "moved_to": aside,
            "means": "the history of the windows is lost; reading goes on from what the broker has committed, or "
            "from the file's beginning",
        }
    ]
    path.with_name(path.name).unlink()
    (path.parent / aside).rename(path)
    assert start(path) == (held(filled(0, 1, 2, 3)) | {"texts": {}, "halves": ()}, {})


def test_what_belongs_together_is_put_aside_together(killed: Files, tmp_path: Path) -> None:
    """The database with its log: put back under its name, it is the state it was."""
    path = laid(tmp_path, 0, killed)
    with closing(sqlite3.connect(path)) as reader:  # keeps the log from being played in when the agent lets go
        reader.execute("SELECT count(*) FROM panes").fetchone()
        with capture_logs(), closing(Checkpoints(path, 10, "reference b", lambda: float(HOUR))):
            pass
    aside = {other.name.partition("-other_owner")[2] for other in path.parent.glob("*.quarantine-*")}
    assert {"", "-wal"} <= aside


def test_the_newest_three_are_kept(closed: Files, tmp_path: Path) -> None:
    """An agent whose state is spoilt again and again does not fill the disk."""
    path = laid(tmp_path, 0, closed)
    for second, owner in enumerate("abcdef"):
        with capture_logs(), closing(Checkpoints(path, 10, owner, lambda second=second: float(HOUR + second))):  # type: ignore[misc]
            pass
    assert owners(path) == ["c", "d", "e"]


def test_the_one_just_put_aside_is_kept_whatever_the_clock_says(closed: Files, tmp_path: Path) -> None:
    """Neither one moment for all nor a clock that runs backwards costs the newest."""
    for number, pace in enumerate((0, -1)):
        path = laid(tmp_path, number, closed)
        for second, owner in enumerate("abcdef"):
            now = float(HOUR + pace * second)
            with capture_logs(), closing(Checkpoints(path, 10, owner, lambda now=now: now)):  # type: ignore[misc]
                pass
            assert second == 0 or "abcdef"[second - 1] in owners(path)
        assert len(owners(path)) == 3


def owners(path: Path) -> list[str]:
    """Whose the states are that were put aside, by name."""
    found = []
    for other in sorted(path.parent.glob("*.quarantine-*")):
        with closing(sqlite3.connect(other)) as database:
            found += [owner for (owner,) in database.execute("SELECT value FROM facts WHERE name = 'owner'")]
    return found


def test_a_path_that_cannot_be_a_state_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Below a file, a directory, a text, somebody else's database: a usage error, and nothing is touched."""
    text = tmp_path / "file"
    text.write_text("This is not a database, only a longer text than SQLite's header would be. " * 30)
    stranger = tmp_path / "customers.db"
    with closing(sqlite3.connect(stranger)) as database, database:
        database.execute("CREATE TABLE customers (name TEXT)")
    marked = tmp_path / "marked.db"
    with closing(sqlite3.connect(marked)) as database:
        database.execute("PRAGMA application_id = 7")
    before = {path: path.read_bytes() for path in (text, stranger, marked)}
    for path, problem in {
        text / "state.db": "cannot be opened: Not a directory",
        tmp_path: "cannot be opened: Is a directory",
        text: "cannot be opened: it is not a database; choose another path",
        stranger: "somebody else's database: choose another path",
        marked: "somebody else's database: choose another path",
    }.items():
        with pytest.raises(UsageError) as caught:
            Checkpoints(path, 10, OWNER)
        assert str(caught.value) == f"state.path: {path}: {problem}"
    assert {path: path.read_bytes() for path in before} == before
    assert not list(tmp_path.glob("*quarantine*"))


def test_a_state_overwritten_by_something_else_is_put_aside(closed: Files, tmp_path: Path) -> None:
    """Where a state has been kept, a file that is no database any more is a damaged state, not a stranger's."""
    whole = closed[""]
    for number, content in enumerate((bytes(len(whole)), b"noise" * 9999, b"noise")):
        assert survived(laid(tmp_path, number, {**closed, "": content})) in {"corrupt", "truncated"}
    assert survived(laid(tmp_path, 9, {"": b"\0" * 16 + whole[16:]})) == "corrupt"


def test_a_state_that_cannot_be_put_aside_is_left(closed: Files, tmp_path: Path) -> None:
    """The error says both what is wrong with it and what is in the way; nothing is lost."""
    path = laid(tmp_path, 0, {**closed, "": closed[""][:9000]})
    path = path.rename(path.with_name("s" * 220))  # the longer name is longer than a file system takes
    with pytest.raises(UsageError, match=r"it is damaged: .*, and it cannot be put aside: File name too long"):
        Checkpoints(path, 10, OWNER)
    assert path.stat().st_size == 9000

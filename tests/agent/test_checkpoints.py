"""The state store: exact, whole, and refusing what it cannot trust."""

# Fixtures that are functions are typed as little as pytest types them.
# ruff: noqa: ANN401, PLR0913, PLR0917

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.checkpoints import Checkpoints, held_alone, pack, unpack
from agent.errors import ArtefactError, LeadlineError, ServiceError, UsageError
from agent.panes import Pane, Tally
from agent.records import Batch, Record
from agent.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from agent.scorer import Scored
    from agent.state import State

HOUR = 1_767_225_600
COUNT = st.integers(0, 2**62)


@pytest.fixture
def opened() -> Iterator[Callable[..., Checkpoints]]:
    """Opens stores, and closes them after the test."""
    stores: list[Checkpoints] = []

    def open_store(path: Path, owner: str = "reference a", every: float = 10.0) -> Checkpoints:
        stores.append(Checkpoints(path, every, owner, lambda: 17.0))
        return stores[-1]

    yield open_store
    for store in stores:
        store._database.close()


@pytest.fixture
def filled(new_state: Callable[..., State], score: Callable[[Sequence[Record]], Scored]) -> Callable[..., State]:
    """A state, new or given, with one more batch: records at these minutes, in two slices."""

    def fill(minutes: Sequence[int], state: State | None = None) -> State:
        state = state or new_state()
        records = tuple(
            Record(f"{minute}-{row}", f"film {row}", HOUR + 60.0 * minute, slice=name)
            for minute in minutes
            for row, name in enumerate(("tenant-a", "größe 🐟"))
        )
        state.add(Batch(records, positions={"file": 100 * len(minutes)}), score(records))
        state.close_windows()
        return state

    return fill


@pytest.fixture
def held(plain: Callable[[object], Any]) -> Callable[[State], Any]:
    """All of a state that a checkpoint keeps."""

    def held(state: State) -> Any:
        return plain([dict(state.windows.panes), state.positions, state.slices.known, state.windows.sealed_until])

    return held


def execute(path: Path, statement: str, *values: object) -> None:
    """Change the database behind the agent's back."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)


IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), max_size=6, unique=True
)


@given(IDS, st.lists(COUNT, min_size=7, max_size=7), st.integers(0, 4), st.integers(0, 3), st.sampled_from([0, 2]))
def test_a_pane_comes_back_exactly(
    plain: Callable[[object], Any],
    ids: list[str],
    counts: list[int],
    embedding: int,
    features: int,
    confidence: int,
) -> None:
    """Counts of any size, ids in any script, samples of any shape, even empty, survive packing."""
    rng = np.random.default_rng(len(ids))
    array = np.array(counts, np.int64)
    tally = Tally(*counts[:2], array, np.stack([array, array]), array, array, *counts[2:5], array)
    *parts, kept = (rng.normal(size=(len(ids), width)) for width in (embedding, 2, features, confidence))
    pane = Pane("slice", HOUR, tally, Sample.of(ids, *parts, size=5, confidence=kept))
    again = unpack("slice", HOUR, pack(pane))
    assert plain(again) == plain(pane)
    assert pack(again) == pack(pane)
    assert again.sample.embedding.dtype == np.float16


def test_a_restored_pane_merges_like_the_one_that_was_saved(filled: Callable[..., State], plain: Any) -> None:
    """Types as well as values come back, so a restored pane takes further records."""
    for pane in filled([0, 1]).windows.panes.values():
        again = unpack(pane.slice, pane.start, pack(pane))
        assert plain(again.merge(pane)) == plain(pane.merge(again)) == plain(pane.merge(pane))


def test_what_is_saved_is_restored(
    opened: Callable[..., Checkpoints],
    filled: Callable[..., State],
    new_state: Any,
    held: Any,
    tmp_path: Path,
) -> None:
    """Panes, positions, slices and the seal; and the time of the save is shown."""
    state = filled([0, 1, 2, 3])
    opened(tmp_path / "new" / "state.db").save(state)
    assert state.last_checkpoint == 17.0
    restored = new_state()
    opened(tmp_path / "new" / "state.db").restore(restored)
    assert held(restored) == held(state)
    assert restored.slices.known == ("tenant-a", "größe 🐟")
    assert restored.windows.sealed_until == HOUR + 120


def test_a_restart_says_again_what_was_last_said(
    opened: Callable[..., Checkpoints], filled: Callable[..., State], new_state: Any, tmp_path: Path
) -> None:
    """The windows of the last sealed panes are in the first snapshot: a restart leaves no gap in the metrics."""
    state = filled([0, 1, 2, 3])
    opened(tmp_path / "state.db").save(state)
    restored = new_state()
    opened(tmp_path / "state.db").restore(restored)
    windows = restored.report(1.0, ready=True).windows
    assert windows
    assert repr(windows) == repr(state.report(1.0, ready=True).windows)


def test_a_new_store_restores_nothing(opened: Callable[..., Checkpoints], new_state: Any, tmp_path: Path) -> None:
    """The first start begins with an empty state; so does a file that a crash left without a byte."""
    (tmp_path / "empty.db").touch()
    for name in ("absent.db", "empty.db"):
        state = new_state()
        opened(tmp_path / name).restore(state)
        assert (dict(state.windows.panes), state.positions, state.windows.sealed_until) == ({}, {}, 0)


def test_only_the_last_checkpoint_counts(
    opened: Callable[..., Checkpoints],
    filled: Callable[..., State],
    new_state: Any,
    held: Any,
    tmp_path: Path,
) -> None:
    """A later save replaces what changed, keeps what did not, and deletes panes that expired."""
    store, state = opened(tmp_path / "state.db"), filled([0, 1])
    store.save(state)
    store.save(filled([2, 30], state))
    store.save(state)
    restored = new_state()
    opened(tmp_path / "state.db").restore(restored)
    assert held(restored) == held(state)
    assert {start for _, start in restored.windows.panes} == {HOUR + 1800}
    rows = store._database.execute("SELECT count(*) FROM panes").fetchone()
    assert rows == (2,)


def test_it_is_due_by_the_clock_it_is_given(opened: Callable[..., Checkpoints], tmp_path: Path) -> None:
    """At once, then every so many seconds."""
    store = opened(tmp_path / "state.db", every=10)
    assert [store.due(now) for now in (5.0, 5.1, 14.9, 15.0, 15.1, 40.0, 49.0, 50.0)] == [
        True, False, False, True, False, True, False, True,
    ]  # fmt: skip


def test_commits_reach_the_disk(opened: Callable[..., Checkpoints], tmp_path: Path) -> None:
    """The write-ahead log, synchronised fully at every commit."""
    database = opened(tmp_path / "state.db")._database
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("PRAGMA synchronous").fetchone() == (2,)


def test_the_files_hold_one_checkpoint_or_the_next_at_every_moment(
    opened: Callable[..., Checkpoints],
    filled: Callable[..., State],
    new_state: Any,
    held: Any,
    tmp_path: Path,
) -> None:
    """Copied in the middle of a save, as a power cut would leave them, the files restore to before or after it."""
    path, copies = tmp_path / "state.db", []
    store, state = opened(path), filled([0, 1])
    store.save(state)
    before = held(state)
    filled([2, 3, 4], state)

    def copy() -> bool:
        place = tmp_path / str(len(copies))
        place.mkdir()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", place / f"state.db{suffix}")
        copies.append(place / "state.db")
        return False

    store._database.set_progress_handler(copy, 20)
    store.save(state)
    copy()
    found = []
    for place in copies:
        restored = new_state()
        opened(place).restore(restored)
        found.append(held(restored))
    assert len(found) > 10
    assert found[0] == before
    assert found[-1] == held(state)
    assert all(one in (before, held(state)) for one in found)


def test_a_full_disk_stops_the_agent(
    opened: Callable[..., Checkpoints],
    filled: Callable[..., State],
    new_state: Any,
    held: Any,
    tmp_path: Path,
) -> None:
    """A plain message and exit code 4; the store still holds the last whole checkpoint, positions included."""
    store, state = opened(tmp_path / "state.db"), filled([0])
    store.save(state)
    before = held(state)
    (pages,) = store._database.execute("PRAGMA page_count").fetchone()
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    filled([1, 2, 3, 4, 5], state)
    with pytest.raises(ServiceError) as caught:
        store.save(state)
    assert str(caught.value) == (
        f"state.path: {tmp_path / 'state.db'} cannot be written: database or disk is full"
    )
    store._database.close()
    restored = new_state()
    opened(tmp_path / "state.db").restore(restored)
    assert held(restored) == before


def test_a_disk_that_turned_read_only_stops_the_agent(
    opened: Callable[..., Checkpoints], filled: Callable[..., State], tmp_path: Path
) -> None:
    """The same for a volume that can no longer be written."""
    store = opened(tmp_path / "state.db")
    store._database.execute("PRAGMA query_only = ON")
    with pytest.raises(ServiceError, match=r"cannot be written: attempt to write a readonly database$"):
        store.save(filled([0]))


def test_a_path_that_cannot_be_a_database_is_refused(opened: Callable[..., Checkpoints], tmp_path: Path) -> None:
    """Below a file, at a directory, or another kind of file: a usage error that names the path."""
    (tmp_path / "file").write_text(
        "This is not a database, only a longer text than SQLite's header would be. " * 30
    )
    for path in (tmp_path / "file" / "state.db", tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError) as caught:
            opened(path)
        assert str(caught.value).startswith(f"state.path: {path}: cannot be opened: ")


@pytest.mark.parametrize(
    ("change", "pane"),
    [
        ("content = CAST(content || 'x' AS BLOB)", f"pane {HOUR} of slice 'tenant-a'"),
        ("content = x''", f"pane {HOUR} of slice 'tenant-a'"),
        ("start = start + 60", f"pane {HOUR + 60} of slice 'tenant-a'"),
        ("slice = 'tenant-b'", f"pane {HOUR} of slice 'tenant-b'"),
    ],
)
def test_a_damaged_pane_is_refused(
    opened: Any,
    filled: Callable[..., State],
    new_state: Any,
    tmp_path: Path,
    change: str,
    pane: str,
) -> None:
    """A pane whose content or place has changed is named, and nothing is made of it."""
    path = tmp_path / "state.db"
    opened(path).save(filled([0]))
    execute(path, f"UPDATE panes SET {change} WHERE slice = 'tenant-a'")  # noqa: S608 - our own words
    with pytest.raises(ArtefactError) as caught:
        opened(path).restore(new_state())
    assert str(caught.value) == f"state.path: {path} is damaged: {pane}. Move it away."


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_database_is_refused(
    opened: Callable[..., Checkpoints],
    filled: Callable[..., State],
    new_state: Any,
    tmp_path: Path,
    keep: float,
) -> None:
    """A file cut short gives an error that names it, not a traceback and not a state with holes."""
    path = tmp_path / "state.db"
    store = opened(path)
    store.save(filled(range(6)))
    store._database.close()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(LeadlineError, match=r"^state\.path: .*state\.db"):
        opened(path).restore(new_state())


@pytest.mark.parametrize("flip", range(8))
def test_a_flipped_bit_is_refused_or_harmless(
    opened: Any,
    filled: Callable[..., State],
    new_state: Any,
    held: Any,
    tmp_path: Path,
    flip: int,
) -> None:
    """Wherever a bit flips, what is restored is a state that was saved, or there is a plain error."""
    path, state = tmp_path / "state.db", filled(range(6))
    store = opened(path)
    store.save(state)
    store._database.close()
    content = bytearray(path.read_bytes())
    place = 4096 + int(np.random.default_rng(flip).integers(len(content) - 4096))
    content[place] ^= 1 << (flip % 8)
    path.write_bytes(content)
    restored = new_state()
    try:
        opened(path).restore(restored)
    except LeadlineError:
        return
    assert held(restored)[0] in (held(state)[0], {})


@pytest.mark.parametrize("change", ["owner", "schema"])
def test_a_state_of_another_reference_or_version_is_refused(
    opened: Callable[..., Checkpoints], tmp_path: Path, change: str
) -> None:
    """Panes of another reference, pane length or schema cannot be merged with ours."""
    path = tmp_path / "state.db"
    opened(path)
    execute(path, "UPDATE facts SET value = 'another' WHERE name = ?", change)
    with pytest.raises(ArtefactError) as caught:
        opened(path)
    assert str(caught.value) == (
        f"state.path: {path} was written for another reference, source, pane length, slice field or version of "
        "Leadline. Move it away to start afresh, or give this agent a path of its own."
    )


def test_traffic_cannot_break_a_save(
    opened: Callable[..., Checkpoints],
    new_state: Any,
    score: Any,
    held: Any,
    tmp_path: Path,
) -> None:
    """Slices and ids with quotes, null bytes and emoji come back as they were."""
    names = ("it's; DROP TABLE panes", "null \0 byte", "🐟", "\u202e")
    records = tuple(Record(f"{name} id", "film", HOUR, slice=name) for name in names)
    state = new_state(slices=9)
    state.add(Batch(records), score(records))
    opened(tmp_path / "state.db").save(state)
    restored = new_state(slices=9)
    opened(tmp_path / "state.db").restore(restored)
    assert held(restored) == held(state)
    assert restored.slices.known == ("it's; DROP TABLE panes", "null ? byte", "🐟", "?")


def test_a_state_has_one_agent_at_a_time(tmp_path: Path) -> None:
    """A second agent on the same state is turned away while the first one lives, and welcome afterwards."""
    path = tmp_path / "state.db"
    with held_alone(path), pytest.raises(UsageError, match="another agent is using"), held_alone(path):
        pytest.fail("two agents held one state")
    with held_alone(path):
        pass


def test_a_stranger_s_database_is_left_alone(opened: Callable[..., Checkpoints], tmp_path: Path) -> None:
    """A database that Leadline did not make is refused, and nothing is written to it."""
    path = tmp_path / "customers.db"
    execute(path, "CREATE TABLE customers (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="somebody else's database"):
        opened(path)
    assert path.read_bytes() == before

"""The state store: exact, whole, and losing nothing to a disk that refuses."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agent.checkpoints import Checkpoints, NoCheckpoints, held_alone
from agent.duplicates import Seen
from agent.errors import ServiceError, UsageError
from agent.records import Label
from agent.state_store import content as store_content
from agent.state_store import files
from agent.state_store.content import SEEN_ROW
from tests.agent.state_bench import HOUR, OWNER, Parts, filled, held, pane, step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Opened = "Callable[..., Checkpoints]"


@pytest.fixture
def opened() -> Iterator[Callable[..., Checkpoints]]:
    """Opens stores, and closes them after the test."""
    stores: list[Checkpoints] = []

    def open_store(path: Path, owner: str = OWNER, every: float = 10.0) -> Checkpoints:
        stores.append(Checkpoints(path, every, owner, lambda: 17.0))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def restored(store: Checkpoints, remember: int = 50) -> Parts:
    """A fresh state with what the store holds."""
    parts = Parts(remember)
    store.restore(parts)
    assert parts.resumed
    return parts


def read(path: Path, query: str) -> list[tuple[object, ...]]:
    """Look into the database from outside."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_what_is_saved_is_restored(opened: Opened, tmp_path: Path) -> None:
    """Panes, positions, slices, the seal, halves in their order and ids; and the time of the save is told."""
    path, parts = tmp_path / "new" / "state.db", filled(0, 1, 2, 3)
    store = opened(path)
    store.save(parts)
    assert store.upkeep().last_checkpoint == 17.0
    again = restored(opened(path))
    assert held(again) == held(parts)
    assert again.windows.sealed_until > HOUR
    assert len(again.pairing) == 2
    assert len(again.seen) == 28


def test_a_new_store_restores_nothing(opened: Opened, tmp_path: Path) -> None:
    """The first start begins with an empty state, and nothing is put aside."""
    store = opened(tmp_path / "state.db")
    assert held(restored(store)) == held(Parts())
    assert not any(store.quarantined.values())
    assert [path.name for path in tmp_path.glob("*quarantine*")] == []


def test_only_what_changed_is_written_and_what_expired_is_deleted(opened: Opened, tmp_path: Path) -> None:
    """A later save replaces what changed, keeps what did not, and deletes panes and partitions that are gone."""
    store, parts = opened(tmp_path / "state.db"), filled(0, 1)
    store.save(parts)
    step(parts, 2)
    step(parts, 30)
    del parts.positions["events-0"]
    store.save(parts)
    store.save(parts)
    assert held(restored(opened(tmp_path / "state.db"))) == held(parts)
    assert {start for _, start in parts.windows.panes} == {HOUR + 1800}
    assert read(tmp_path / "state.db", "SELECT count(*) FROM panes") == [(2,)]
    assert "events-0" not in restored(store).positions


def test_a_save_without_changes_writes_nothing(opened: Opened, tmp_path: Path) -> None:
    """An idle agent does not wear out the disk with panes."""
    store, parts = opened(tmp_path / "state.db"), filled(0, 1)
    store.save(parts)
    changes = store._database.total_changes
    store.save(parts)
    assert store._database.total_changes - changes == 1  # the sum


def test_a_save_costs_what_changed(opened: Opened, tmp_path: Path) -> None:
    """One changed pane among many is one row written, however many there are."""
    store, parts = opened(tmp_path / "state.db"), Parts()
    parts.windows.add([pane("default", HOUR + 60 * minute) for minute in range(50)])
    store.save(parts)
    changes = store._database.total_changes
    parts.windows.add([pane("default", HOUR)])
    store.save(parts)
    assert store._database.total_changes - changes == 3  # the old row, the new one, the sum


def test_it_is_due_by_the_clock_it_is_given(opened: Opened, tmp_path: Path) -> None:
    """At once, then every so many seconds."""
    store = opened(tmp_path / "state.db", every=10)
    assert [store.due(now) for now in (5.0, 5.1, 14.9, 15.0, 15.1, 40.0, 49.0, 50.0)] == [
        True, False, False, True, False, True, False, True,
    ]  # fmt: skip


def test_how_often_can_change(opened: Opened, tmp_path: Path) -> None:
    """A new interval counts from the next time it is due."""
    store = opened(tmp_path / "state.db", every=10)
    assert store.due(0.0)
    store.change(2)
    assert [store.due(now) for now in (3.0, 10.0, 11.0, 12.0)] == [False, True, False, True]


def test_commits_reach_the_disk_and_what_is_deleted_is_gone(opened: Opened, tmp_path: Path) -> None:
    """The write-ahead log, synchronised fully at every commit; deleted rows are overwritten."""
    database = opened(tmp_path / "state.db")._database
    for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("secure_delete", 1)):
        assert database.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_only_its_owner_reads_the_state(opened: Opened, tmp_path: Path) -> None:
    """Halves that wait hold text: the files have mode 0600 from their first byte, and an older state gets it."""
    path = tmp_path / "state.db"
    store = opened(path)
    store.save(filled(0))
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    store.close()
    path.chmod(0o644)
    opened(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_half_that_went_leaves_no_text(opened: Opened, tmp_path: Path) -> None:
    """Once the log has been played into the database, no file holds the text of a half that was given up."""
    store, parts = opened(tmp_path / "state.db"), filled(0)
    store.save(parts)
    assert len(parts.pairing.overdue(HOUR + 1e6)) == 1
    store.save(parts)
    store.close()
    assert b"\\u00e9t\\u00e9" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_the_state_has_an_id_of_its_own(opened: Opened, tmp_path: Path) -> None:
    """Made with the database and kept: what commits at the broker are signed with."""
    first, again, other = (opened(tmp_path / name) for name in ("a.db", "a.db", "b.db"))
    assert UUID(first.id)
    assert first.id == again.id != other.id


def test_ids_beyond_those_remembered_go(opened: Opened, tmp_path: Path) -> None:
    """Rows of ids are filled up, and the oldest go once the newer ones hold all that is remembered."""
    store, parts = opened(tmp_path / "state.db"), Parts()
    parts.seen = Seen(SEEN_ROW)
    for number in range(9):
        for row in range(1000):
            parts.seen.add(f"{number} {row}")
        store.save(parts)
    assert restored(store, SEEN_ROW).seen.snapshot() == parts.seen.snapshot()
    assert restored(store, 10).seen.snapshot() == parts.seen.snapshot()[-10:]
    assert restored(store, 0).seen.snapshot() == ()
    assert read(tmp_path / "state.db", "SELECT count(*) FROM seen") == [(2,)]


def test_what_was_rolled_back_is_forgotten_by_the_store_too(opened: Opened, tmp_path: Path) -> None:
    """Records that were saved but given up count as new when they come again, a restart later as well."""
    store, parts = opened(tmp_path / "state.db"), filled(0)
    store.save(parts)
    parts.confirm()
    step(parts, 1)
    store.save(parts)  # and the source takes no note
    parts.pairing.overdue(HOUR + 1e6)
    parts.roll_back()
    store.save(parts)
    again = restored(opened(tmp_path / "state.db"))
    assert held(again) == held(parts) == held(filled(0))
    assert again.seen.add("1 0")


def test_an_id_remembered_again_is_the_newest_again(opened: Opened, tmp_path: Path) -> None:
    """An id that was forgotten and came back is forgotten last, as without a restart."""
    store, parts = opened(tmp_path / "state.db"), Parts(remember=2)
    for name in "abca":
        parts.seen.add(name)
        store.save(parts)
    assert restored(store, 2).seen.snapshot() == parts.seen.snapshot()


def test_labels_are_kept_the_newest_of_them(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each label with its id and time, in order; beyond the bound the oldest go."""
    monkeypatch.setattr(store_content, "MOST_LABELS", 3)
    store, parts = opened(tmp_path / "state.db"), Parts()
    for number in range(5):
        parts.labels = [Label(f"\ud800{number}", ("a", "b") if number % 2 else "a", 0.1 + number)]
        store.save(parts)
    assert read(tmp_path / "state.db", "SELECT id, label, time FROM labels") == [
        ("?2", '"a"', 2.1),
        ("?3", '["a", "b"]', 3.1),
        ("?4", '"a"', 4.1),
    ]
    assert held(restored(opened(tmp_path / "state.db"))) == held(parts)


def test_a_half_too_deep_to_be_written_does_not_stop_the_agent(opened: Opened, tmp_path: Path) -> None:
    """JSON that was read at the edge of what Python nests is left out: after a restart, that half never came."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    store, parts = opened(tmp_path / "state.db"), filled(0, 1, 2)
    (waiting, *_) = parts.pairing.snapshot()
    waiting.fields["deep"] = deep
    store.save(parts)
    assert restored(opened(tmp_path / "state.db")).pairing.snapshot() == parts.pairing.snapshot()[1:]
    while deep:  # by hand: letting go of it all at once would overflow the stack
        deep = deep.pop()  # type: ignore[assignment]


def test_traffic_cannot_break_a_save(opened: Opened, tmp_path: Path) -> None:
    """Names of slices and partitions with quotes, null bytes and emoji come back as they were."""
    parts = Parts()
    for name in ("it's; DROP TABLE panes", "null \0 byte", "🐟", "\u202e"):
        parts.windows.add([pane(parts.slices.name(name), HOUR)])
        parts.positions[name] = 2**62
    opened(tmp_path / "state.db").save(parts)
    assert held(restored(opened(tmp_path / "state.db"))) == held(parts)


def test_a_full_disk_loses_nothing(opened: Opened, tmp_path: Path) -> None:
    """A plain message and exit code 4; the last checkpoint stands, and once there is space everything is saved."""
    path, parts = tmp_path / "state.db", filled(0)
    store = opened(path)
    store.save(parts)
    before = held(parts)
    (pages,) = store._database.execute("PRAGMA page_count").fetchone()
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(1, 5):
        step(parts, number, items=8)
        with capture_logs() as logs, pytest.raises(ServiceError) as caught:
            store.save(parts)
        assert [(line["event"], line["problem"]) for line in logs] == [
            ("state not saved", "database or disk is full")
        ]
        assert str(caught.value) == f"state.path: {path} cannot be written: database or disk is full"
    assert held(restored(opened(path))) == before
    assert store.upkeep().checkpoint_failures == store.failures == 4
    store._database.execute("PRAGMA max_page_count = 100000")
    store.save(parts)
    assert held(restored(opened(path))) == held(parts)
    assert read(path, "SELECT count(*) FROM labels") == [(5,)]


def test_a_disk_that_turned_read_only_loses_nothing(opened: Opened, tmp_path: Path) -> None:
    """The same for a volume that cannot be written for a while: what was to be saved then is saved afterwards."""
    path, parts = tmp_path / "state.db", filled(0, 1)
    store = opened(path)
    store.save(parts)
    writable, store._database = store._database, sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    with closing(store._database):
        step(parts, 2)
        with pytest.raises(ServiceError, match=r"cannot be written: attempt to write a readonly database$"):
            store.save(parts)
    store._database = writable
    store.save(parts)
    assert held(restored(opened(path))) == held(parts)
    assert not any(store.quarantined.values())


def test_a_lock_is_no_reason_to_put_a_state_aside(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program that holds the database makes saves fail, and a start; the state stays where it is."""
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    path, parts = tmp_path / "state.db", filled(0)
    store = opened(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ServiceError, match="database is locked"):
            store.save(parts)
        other.execute("ROLLBACK")
        store.close()
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("UPDATE whole SET row_count = row_count")
        with pytest.raises(UsageError, match="cannot be used: database is locked"):
            Checkpoints(path, 10, OWNER)
    assert not list(tmp_path.glob("*quarantine*"))
    assert held(restored(opened(path))) == held(Parts())


OPERATIONS = st.lists(
    st.sampled_from(["step", "step", "save", "commit", "lost", "full", "locked", "restart", "forget", "drop"]),
    max_size=25,
)


class Life:
    """A store and a state through which anything may happen; `saved` is what a restart must find."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store, self.parts, self.number = Checkpoints(path, 10, OWNER), Parts(), 0
        self.saved = held(self.parts)
        self.committed = 0

    def step(self) -> None:
        """More traffic."""
        step(self.parts, self.number)
        self.number += 1

    def save(self) -> None:
        """A checkpoint of which the source takes no note."""
        self.store.save(self.parts)
        self.saved = held(self.parts)

    def commit(self) -> None:
        """A checkpoint of which the source takes note."""
        self.save()
        self.parts.confirm()
        self.committed = self.number

    def lost(self) -> None:
        """The partitions are taken away and come back: what the source took no note of is read again."""
        self.parts.roll_back()
        self.number = self.committed

    def full(self) -> None:
        """A checkpoint on a full disk, unless it fits into the pages there are."""
        if not _refused(self.store, self.path, self.parts, "full"):
            self.saved = held(self.parts)

    def locked(self) -> None:
        """A checkpoint while another program holds the database."""
        assert _refused(self.store, self.path, self.parts, "locked")

    def restart(self) -> None:
        """The agent ends and starts again, and reads on from where the state is."""
        self.store.close()
        self.store, self.parts = Checkpoints(self.path, 10, OWNER), Parts()
        self.store.restore(self.parts)
        assert held(self.parts) == self.saved
        self.committed = self.number = self.parts.positions.get("events-0", -100) // 100 + 1

    def forget(self) -> None:
        """Halves go that have waited too long."""
        self.parts.pairing.overdue(HOUR + 300 + self.number / 3)

    def drop(self) -> None:
        """A partition goes."""
        self.parts.positions.pop("events-1", None)


@settings(max_examples=100)
@given(OPERATIONS)
def test_whatever_failed_the_next_save_makes_good(
    tmp_path_factory: pytest.TempPathFactory, operations: Sequence[str]
) -> None:
    """Traffic, saves, full disks, lost partitions, restarts in any order: a state comes back as last saved."""
    life = Life(tmp_path_factory.mktemp("any") / "state.db")
    for operation in operations:
        getattr(life, operation)()
    life.save()
    life.restart()
    life.store.close()
    assert not any(life.store.quarantined.values())


def _refused(store: Checkpoints, path: Path, parts: Parts, how: str) -> bool:
    """Whether a save failed while the disk was full, or the database locked."""
    database = store._database
    database.execute("PRAGMA busy_timeout = 0")
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        if how == "locked":
            other.execute("BEGIN IMMEDIATE")
        else:
            database.execute(f"PRAGMA max_page_count = {pages}")
        try:
            store.save(parts)
        except ServiceError:
            return True
        else:
            return False
        finally:
            database.execute("PRAGMA max_page_count = 100000")


def test_a_state_has_one_agent_at_a_time(tmp_path: Path) -> None:
    """A second agent on the same state is turned away while the first one lives, and welcome afterwards."""
    path = tmp_path / "state.db"
    with held_alone(path), pytest.raises(UsageError, match="another agent is using"), held_alone(path):
        pytest.fail("two agents held one state")
    with held_alone(path):
        pass


def test_without_a_state_nothing_is_kept_and_nothing_piles_up() -> None:
    """An agent without `state` is due like one with it, has an id for this run, and forgets what changed."""
    store, parts = NoCheckpoints(every=10), filled(0, 1)
    store.save(parts)
    store.restore(parts)
    store.close()
    assert [store.due(now) for now in (0.0, 9.9, 10.0)] == [True, False, True]
    store.change(1)
    assert [store.due(now) for now in (20.0, 20.9, 21.0)] == [True, False, True]
    assert store.id != NoCheckpoints().id
    assert (store.failures, dict(store.quarantined)) == (0, {})
    assert store.upkeep().last_checkpoint != store.upkeep().last_checkpoint
    taken = (parts.windows.take_changed(), parts.pairing.take_changed(), parts.seen.take_added(), parts.labels)
    assert taken == ([], [], [], [])

"""States that older versions of Leadline wrote: carried over whole, or left as they were."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from agent.checkpoints import Checkpoints
from agent.state_store.schema import SCHEMA
from agent.state_store.upgrades import OLDEST, UPGRADES
from tests.agent.state_bench import GOLDEN, LACKS, OWNER, Parts, golden, held, step

if TYPE_CHECKING:
    from pathlib import Path


def copied(version: int, root: Path) -> Path:
    """A golden state, to be written to."""
    path = root / f"schema-{version}.sqlite"
    shutil.copyfile(GOLDEN / path.name, path)
    return path


def version_of(path: Path) -> str:
    """The schema version that a state names."""
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute("SELECT value FROM facts WHERE name = 'schema'").fetchone()
    return str(found)


def test_every_version_ever_released_has_a_golden_state_and_an_upgrade() -> None:
    """A new schema version comes with an upgrade from the one before, and a state that the code really wrote."""
    assert list(UPGRADES) == list(range(OLDEST, SCHEMA))
    wanted = {f"schema-{version}.sqlite": str(version) for version in range(OLDEST, SCHEMA + 1)}
    assert {path.name: version_of(path) for path in GOLDEN.glob("*.sqlite")} == wanted
    assert list(LACKS) == list(range(OLDEST, SCHEMA + 1))


@pytest.mark.parametrize("version", range(OLDEST, SCHEMA + 1))
def test_an_older_state_is_carried_over_exactly(version: int, tmp_path: Path) -> None:
    """Panes, positions, the seal and slices come out as they went in, with an id; then it goes on."""
    path, expected = copied(version, tmp_path), held(golden()) | LACKS[version]
    for _ in range(2):  # the upgrade, and a start after it
        parts = Parts()
        with capture_logs() as logs, closing(Checkpoints(path, 10, OWNER)) as store:
            store.restore(parts)
            assert held(parts) == expected
            assert UUID(store.id)
        assert logs == []
        assert version_of(path) == str(SCHEMA)
    with closing(Checkpoints(path, 10, OWNER)) as store:
        step(parts, 4)
        store.save(parts)
        again = Parts()
        store.restore(again)
    assert held(again) == held(parts)


def test_an_upgrade_that_meets_damage_changes_nothing(tmp_path: Path) -> None:
    """A damaged pane is found on the way, and the older state is put aside as it was."""
    path = copied(2, tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE panes SET start = start + 60000 WHERE slice = 'tenant-a'")
    with capture_logs(), closing(Checkpoints(path, 10, OWNER)) as store:
        assert store.quarantined["corrupt"] == 1
    (aside,) = tmp_path.glob("*.quarantine-*-corrupt")
    assert version_of(aside) == "2"
    with closing(sqlite3.connect(aside)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"facts", "positions", "sealed", "slices", "panes"}


def test_a_version_before_the_first_release_is_put_aside(tmp_path: Path) -> None:
    """There is no way to carry it over, and no agent may be kept from starting by it."""
    path = copied(2, tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE facts SET value = '1' WHERE name = 'schema'")
    with capture_logs() as logs, closing(Checkpoints(path, 10, OWNER)) as store:
        assert store.quarantined["corrupt"] == 1
    assert logs[0]["found"] == "it says schema version 1, which no release wrote"

"""States of older schema versions, carried over one version at a time, all in one transaction.

An upgrade writes tables as they were in the version it leads to. Each has a state really written by the older
version in `tests/agent/golden_state/`, which must come out with the same panes and positions.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

from agent.state_store.faults import Fault, UnusableError
from agent.state_store.rows import Rows, make_tables
from agent.state_store.schema import SCHEMA, TABLES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

# The first schema version that a release wrote.
OLDEST = 2


def _from_2(cursor: sqlite3.Cursor) -> None:
    """Only panes had a checksum, over a text of their own; there were no ids, halves or labels."""
    old = ("facts", "positions", "sealed", "slices", "panes")
    for name in old:
        cursor.execute(f"ALTER TABLE {name} RENAME TO {name}_2")
    make_tables(cursor, (*old, "halves", "seen", "labels"))
    rows = Rows(cursor)
    rows.put("facts", ("schema",), ("3",))
    rows.put("facts", ("id",), (str(uuid4()),))
    rows.put("facts", ("owner",), cursor.execute("SELECT value FROM facts_2 WHERE name = 'owner'").fetchone())
    for partition, position in cursor.execute("SELECT partition, position FROM positions_2").fetchall():
        rows.put("positions", (partition,), (position,))
    for (until,) in cursor.execute("SELECT until FROM sealed_2").fetchall():
        rows.put("sealed", (1,), (until,))
    for place, name in cursor.execute("SELECT place, name FROM slices_2 ORDER BY place").fetchall():
        rows.put("slices", (place,), (name,))
    for name, start in cursor.execute("SELECT slice, start FROM panes_2 ORDER BY rowid").fetchall():
        rows.put("panes", (name, start), (_pane_of_2(cursor, name, start),))
    rows.finish()
    for name in old:
        cursor.execute(f"DROP TABLE {name}_2")


def _from_3(cursor: sqlite3.Cursor) -> None:
    """Nothing was decided yet, and no texts were kept."""
    for name in ("watches", "episodes", "texts"):
        cursor.execute(TABLES[name].create)
    rows = Rows(cursor)
    rows.put("facts", ("schema",), ("4",))
    rows.finish()


def _pane_of_2(cursor: sqlite3.Cursor, name: str, start: int) -> bytes:
    content, checksum = cursor.execute(
        "SELECT content, sha256 FROM panes_2 WHERE slice = ? AND start = ?", (name, start)
    ).fetchone()
    if sha256(f"{name}\0{start}\0".encode() + content).hexdigest() != checksum:
        raise UnusableError(Fault.CORRUPT, "it is damaged: a row of its table 'panes' has changed")
    return bytes(content)


UPGRADES: Mapping[int, Callable[[sqlite3.Cursor], None]] = {2: _from_2, 3: _from_3}


def upgrade(database: sqlite3.Connection, schema: int) -> None:
    """Carry a state of this version over to the newest, wholly or not at all."""
    if schema == SCHEMA:
        return
    if schema not in UPGRADES:
        raise UnusableError(Fault.CORRUPT, f"it says schema version {schema}, which no release wrote")
    cursor = database.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        for version in range(schema, SCHEMA):
            UPGRADES[version](cursor)
        cursor.execute("COMMIT")
    finally:
        if database.in_transaction:
            cursor.execute("ROLLBACK")
        cursor.close()

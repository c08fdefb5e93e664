"""Rows with checksums: written with the sum of all of them, and read only as a whole that adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.state_store.faults import Fault, UnusableError
from agent.state_store.schema import TABLES, WHOLE, Value, digest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping

Row = tuple[Value, ...]
# Checksums are added like numbers, so that a save costs what has changed and not what there is.
_MODULUS = 1 << 256


def make_tables(cursor: sqlite3.Cursor, names: Collection[str] = TABLES.keys()) -> None:
    """Make these tables, empty; all of them where none are named."""
    for name in names:
        cursor.execute(TABLES[name].create)
    cursor.execute(WHOLE)
    cursor.execute("INSERT INTO whole VALUES (?, 0)", (bytes(32),))


class Rows:
    """Changes to rows within one transaction; `finish` before it is committed."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.cursor = cursor
        total, self._count = cursor.execute("SELECT total, row_count FROM whole").fetchone()
        self._total = int.from_bytes(total, "little")

    def put(self, name: str, key: Row, values: Row) -> None:
        """Write a row, in place of one with this key; nothing if it is there already."""
        table, checksum = TABLES[name], digest(name, (*key, *values))
        if self._held(name, key) == checksum:
            return
        self.drop(name, key)
        self.cursor.execute(f"INSERT INTO {name} VALUES ({table.marks})", (*key, *values, checksum))  # noqa: S608 - ours
        self._count += 1
        self._total += int.from_bytes(checksum, "little")

    def drop(self, name: str, key: Row) -> None:
        """Delete the row with this key, if there is one."""
        if (held := self._held(name, key)) is not None:
            self.cursor.execute(f"DELETE FROM {name} WHERE {TABLES[name].place}", key)  # noqa: S608 - ours
            self._count -= 1
            self._total -= int.from_bytes(held, "little")

    def replace(self, name: str, rows: Mapping[Row, Row]) -> None:
        """Let the table hold just these rows, by key. For small tables."""
        keys = ", ".join(TABLES[name].key)
        for key in self.cursor.execute(f"SELECT {keys} FROM {name}").fetchall():  # noqa: S608 - ours
            if key not in rows:
                self.drop(name, key)
        for key, values in rows.items():
            self.put(name, key, values)

    def finish(self) -> None:
        """Write down what the rows add up to."""
        total = (self._total % _MODULUS).to_bytes(32, "little")
        self.cursor.execute("UPDATE whole SET total = ?, row_count = ?", (total, self._count))

    def _held(self, name: str, key: Row) -> bytes | None:
        found = self.cursor.execute(f"SELECT sha256 FROM {name} WHERE {TABLES[name].place}", key).fetchone()  # noqa: S608 - ours
        return None if found is None else bytes(found[0])


def verified(cursor: sqlite3.Cursor) -> Iterator[tuple[str, Row]]:
    """Every row with its table's name, in the order in which it was written.

    UnusableError at the latest after the last one, if a row has changed, vanished, or come from elsewhere: nothing
    may be made of the rows before the end.
    """
    count = total = 0
    for name, table in TABLES.items():
        for *row, checksum in cursor.execute(f"SELECT {table.columns}, sha256 FROM {name} ORDER BY rowid"):  # noqa: S608 - ours
            if digest(name, row) != checksum:
                raise UnusableError(Fault.CORRUPT, f"it is damaged: a row of its table {name!r} has changed")
            count += 1
            total += int.from_bytes(checksum, "little")
            yield name, tuple(row)
    held = cursor.execute("SELECT total, row_count FROM whole").fetchall()
    if held != [((total % _MODULUS).to_bytes(32, "little"), count)]:
        raise UnusableError(Fault.CORRUPT, "it is damaged: rows are missing from it, or out of date")

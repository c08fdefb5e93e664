"""The tables of the state store, and the checksum that every row of them carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = 4
# "lead" in ASCII: how SQLite files say whose they are.
OURS = 0x6C656164

Value = str | int | float | bytes


@dataclass(frozen=True)
class Table:
    """A table: its key, its other columns, each with its type, and a checksum a row."""

    name: str
    key: Mapping[str, str]
    values: Mapping[str, str]

    @cached_property
    def create(self) -> str:
        """The statement that makes it."""
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in {**self.key, **self.values}.items())
        key = ", ".join(self.key)
        return f"CREATE TABLE {self.name} ({columns}, sha256 BLOB NOT NULL, PRIMARY KEY ({key})) STRICT"

    @cached_property
    def place(self) -> str:
        """The condition that finds the row with a key."""
        return " AND ".join(f"{name} = ?" for name in self.key)

    @cached_property
    def columns(self) -> str:
        """Every column but the checksum, in the order in which the checksum takes them."""
        return ", ".join([*self.key, *self.values])

    @cached_property
    def marks(self) -> str:
        """A question mark a column, the checksum's included."""
        return ", ".join("?" * (len(self.key) + len(self.values) + 1))


# Slices and halves come back in the order in which they were written. Names from outside may hold any character:
# where they are a row's place they are JSON, which is ASCII; so is the content beside them.
TABLES = {
    table.name: table
    for table in (
        Table("facts", {"name": "TEXT"}, {"value": "TEXT"}),
        Table("positions", {"partition": "TEXT"}, {"position": "INTEGER"}),
        Table("sealed", {"only_row": "INTEGER"}, {"until": "INTEGER"}),
        Table("slices", {"place": "INTEGER"}, {"name": "TEXT"}),
        Table("panes", {"slice": "TEXT", "start": "INTEGER"}, {"content": "BLOB"}),
        Table("halves", {"place": "TEXT"}, {"content": "TEXT"}),
        Table("seen", {"number": "INTEGER"}, {"digests": "BLOB"}),
        Table("labels", {"number": "INTEGER"}, {"id": "TEXT", "label": "TEXT", "time": "REAL"}),
        Table("watches", {"slice": "TEXT"}, {"content": "TEXT"}),
        Table("episodes", {"number": "INTEGER"}, {"content": "TEXT"}),
        Table("texts", {"slice": "TEXT", "id": "TEXT"}, {"content": "TEXT"}),
    )
}
# One row: how many rows the tables above hold, and the sum of their checksums. It finds rows that have vanished.
WHOLE = "CREATE TABLE whole (total BLOB NOT NULL, row_count INTEGER NOT NULL) STRICT"


def digest(table: str, row: Sequence[Value]) -> bytes:
    """The checksum of a row: of its table, its place in it, and what it holds."""
    found = sha256()
    for value in (table, *row):
        content = value if isinstance(value, bytes) else repr(value).encode()
        found.update(len(content).to_bytes(8, "little"))
        found.update(content)
    return found.digest()

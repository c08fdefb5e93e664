"""Tables in and out: Parquet, CSV or JSON Lines, by extension. The fixed columns are in `COLUMNS`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # ships no types
from pyarrow import csv, parquet
from pyarrow import json as arrow_json

from agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

COLUMNS = (
    "text",
    "text_pair",
    "id",
    "label",
    "prediction",
    "logits",
    "probabilities",
    "features",
    "timestamp",
    "slice",
    "model_version",
)
LISTS = ("logits", "probabilities", "features")
FORMATS = ".parquet, .csv or .jsonl"


@dataclass(frozen=True)
class Table:
    """A table held in memory, with the file it came from for error messages."""

    path: Path
    data: pa.Table

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def has(self, column: str) -> bool:
        """Whether the column exists and holds at least one value."""
        return column in self.data.column_names and self.data[column].null_count < len(self)

    def need(self, *columns: str) -> None:
        """UsageError naming every column that is missing and what the table has instead."""
        absent = [name for name in columns if name not in self.data.column_names]
        if absent:
            raise UsageError(
                f"{self.path}: column {', '.join(map(repr, absent))} is missing. "
                f"The table has: {', '.join(self.data.column_names)}."
            )

    def texts(self) -> list[str]:
        """Every text; UsageError with the first row that has none."""
        self.need("text")
        values: list[object] = self.data["text"].to_pylist()
        texts = [value if isinstance(value, str) else "" for value in values]
        bad = [row for row, text in enumerate(texts) if not text.strip()]
        if bad:
            raise UsageError(
                f"{self.path}: {len(bad)} of {len(self)} rows have no text (the first is row {bad[0] + 1}). "
                "Remove them or fill them in."
            )
        return texts

    def pairs(self) -> list[str | None] | None:
        """The second text of each row, or None without such a column."""
        return self.strings("text_pair")

    def strings(self, column: str) -> list[str | None] | None:
        """A column as text, or None without such a column."""
        if not self.has(column):
            return None
        return [None if value is None else str(value) for value in self.data[column].to_pylist()]

    def ids(self) -> list[str]:
        """The `id` column, with the row's number where there is none."""
        given = self.strings("id") or [None] * len(self)
        return [str(row + 1) if value is None else value for row, value in enumerate(given)]

    def labels(self, names: Sequence[str]) -> NDArray[np.intp]:
        """(n,) class indices of the `label` column; UsageError names an unknown label and the known ones."""
        self.need("label")
        index = {name: position for position, name in enumerate(names)}
        values = [str(value) for value in self.data["label"].to_pylist()]
        unknown = sorted(set(values) - set(index))
        if unknown:
            row = values.index(unknown[0]) + 1
            raise UsageError(
                f"{self.path}: row {row} has label {unknown[0]!r}, which the model does not know. "
                f"Known labels: {', '.join(names)}."
            )
        return np.array([index[value] for value in values], np.intp)

    def matrix(self, column: str, width: int | None = None) -> NDArray[np.float64]:
        """(n, width) numbers of a list column; UsageError names the first row of another width or not finite."""
        self.need(column)
        rows = self.data[column].to_pylist()
        width = width if width is not None else len(rows[0] or ())
        for number, row in enumerate(rows, start=1):
            if row is None or len(row) != width:
                found = "nothing" if row is None else f"{len(row)} numbers"
                raise UsageError(f"{self.path}: row {number}: {column!r} has {found}, expected {width}.")
        values = np.array(rows, np.float64).reshape(len(rows), width)
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite)) + 1
            raise UsageError(
                f"{self.path}: row {row}: {column!r} holds NaN or infinity. Remove the row or mend it."
            )
        return values


def read_table(path: Path) -> Table:
    """The whole table. UsageError if it is absent, of another format, damaged or without rows."""
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise UsageError(f"{path}: not a table Leadline reads: the name must end in {FORMATS}")
    try:
        data = reader(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read as {path.suffix[1:]}: {error}") from error
    if not data.num_rows:
        raise UsageError(f"{path}: the table has no rows")
    return Table(path, data)


def write_table(path: Path, columns: Mapping[str, NDArray[np.generic] | Sequence[object]]) -> None:
    """Write the columns to Parquet, CSV or JSON Lines, by extension; UsageError if it cannot be written."""
    if path.suffix not in _READERS:
        raise UsageError(f"{path}: not a table Leadline writes: the name must end in {FORMATS}")
    data = pa.table({name: pa.array(values) for name, values in columns.items()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            parquet.write_table(data, path)
        elif path.suffix == ".csv":
            csv.write_csv(data, path)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in data.to_pylist()), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error


def rows(path: Path, start: int, size: int = 1024) -> Iterator[list[dict[str, object]]]:
    """The rows of a Parquet or CSV table from row `start` on, in pieces, without holding the whole file."""
    skipped = 0
    for batch in _batches(path, size):
        if skipped + batch.num_rows > start:
            yield _decoded(pa.Table.from_batches([batch])).to_pylist()[max(start - skipped, 0) :]
        skipped += batch.num_rows


def _batches(path: Path, size: int) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=size)
    else:
        with csv.open_csv(path, convert_options=_CSV_TYPES, parse_options=_CSV_LINES) as reader:
            yield from reader


def _decoded(data: pa.Table) -> pa.Table:
    """List columns, which CSV holds as JSON text, as lists."""
    for name in LISTS:
        if name in data.column_names and pa.types.is_string(data[name].type):
            lists = [None if cell is None else json.loads(cell) for cell in data[name].to_pylist()]
            data = data.set_column(data.column_names.index(name), name, pa.array(lists, pa.list_(pa.float64())))
    return data


# Every column as it is written: an id such as 007 must not become a number.
_CSV_TYPES = csv.ConvertOptions(
    column_types=dict.fromkeys(COLUMNS, pa.string()),
    strings_can_be_null=True,
    quoted_strings_can_be_null=False,
)
_CSV_LINES = csv.ParseOptions(newlines_in_values=True)


def _read_csv(path: Path) -> pa.Table:
    return _decoded(csv.read_csv(path, convert_options=_CSV_TYPES, parse_options=_CSV_LINES))


def _read_parquet(path: Path) -> pa.Table:
    return parquet.read_table(path)


def _read_jsonl(path: Path) -> pa.Table:
    return arrow_json.read_json(path)


_READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
}

"""Tables in and out: Parquet, CSV or JSON Lines, by extension. The fixed columns are in `COLUMNS`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet
from pyarrow import json as arrow_json

from agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

# The id of an annotation batch's item, in tools that put a number of their own under `id`.
ITEM_ID = "leadline_id"
COLUMNS = (
    "text",
    "text_pair",
    "tokens",
    "id",
    "label",
    "prediction",
    "logits",
    "probabilities",
    "features",
    "timestamp",
    "slice",
    "model_version",
    ITEM_ID,
)
LISTS = ("tokens", "logits", "probabilities", "features")
FORMATS = ".parquet, .csv or .jsonl"
SUFFIXES = frozenset({".parquet", ".csv", ".jsonl"})


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
            missing = "column {} is missing" if len(absent) == 1 else "columns {} are missing"
            raise UsageError(
                f"{self.path}: {missing.format(', '.join(map(repr, absent)))}. "
                f"The table has: {', '.join(self.data.column_names)}."
            )

    def texts(self) -> list[str]:
        """Every text: where there is no such column, the `tokens` joined by spaces.

        UsageError with the first row that has none.
        """
        if "text" in self.data.column_names or "tokens" not in self.data.column_names:
            self.need("text")
            values: list[object] = self.data["text"].to_pylist()
            texts = [value if isinstance(value, str) else "" for value in values]
        else:
            texts = [" ".join(tokens) for tokens in self.string_lists("tokens")]
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

    def string_lists(self, column: str) -> list[list[str]]:
        """A column of lists of strings, none of them empty; UsageError names the first row that is not one."""
        self.need(column)
        lists: list[list[str]] = []
        for row, cell in enumerate(map(decoded, self.data[column].to_pylist()), start=1):
            if not isinstance(cell, list) or not cell or not all(isinstance(item, str) for item in cell):
                found = "something else in it" if isinstance(cell, list) and cell else _found(cell)
                raise UsageError(f"{self.path}: row {row}: {column!r} has {found}, expected a list of strings.")
            lists.append(cell)
        return lists

    def ids(self) -> list[str]:
        """The `id` column, with the row's number where there is none."""
        given = self.strings("id") or [None] * len(self)
        return [str(row + 1) if value is None else value for row, value in enumerate(given)]

    def labels(self, names: Sequence[str]) -> NDArray[np.intp]:
        """(n,) class indices of the `label` column; UsageError names an unknown label and the known ones."""
        self.need("label")
        index = {name: position for position, name in enumerate(names)}
        cells = self.data["label"].to_pylist()
        if None in cells:
            raise UsageError(f"{self.path}: row {cells.index(None) + 1} has no label. Remove it or fill it in.")
        values = [str(value) for value in cells]
        unknown = sorted(set(values) - set(index))
        if unknown:
            row = values.index(unknown[0]) + 1
            raise UsageError(
                f"{self.path}: row {row} has label {unknown[0]!r}, which the model does not know. "
                f"Known labels: {', '.join(names)}."
            )
        return np.array([index[value] for value in values], np.intp)

    def matrix(self, column: str, width: int | None = None) -> NDArray[np.float64]:
        """(n, width) numbers of a list column; UsageError names the first row of another width or not finite.

        Without `width` the first row gives it.
        """
        self.need(column)
        rows = [decoded(cell) for cell in self.data[column].to_pylist()]
        if width is None:
            width = len(rows[0]) if isinstance(rows[0], list) else 0
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, list) or not row or len(row) != width:
                raise UsageError(
                    f"{self.path}: row {number}: {column!r} has {_found(row)}, expected {_numbers(width)}."
                )
        try:
            values = np.array(rows, np.float64).reshape(len(rows), width)
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{self.path}: {column!r} must hold lists of numbers") from error
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
        data.validate(full=True)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if not data.num_rows:
        raise UsageError(f"{path}: the table has no rows")
    twice = sorted({name for name in data.column_names if data.column_names.count(name) > 1})
    if twice:
        raise UsageError(f"{path}: column {', '.join(map(repr, twice))} occurs more than once. Remove one.")
    return Table(path, data)


def check_output(path: Path) -> None:
    """UsageError unless the name says in which format to write; ask before long work."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: not a table Leadline writes: the name must end in {FORMATS}")


def write_table(path: Path, columns: Mapping[str, NDArray[np.generic] | Sequence[object]]) -> None:
    """Write the columns to Parquet, CSV or JSON Lines, by extension; UsageError if it cannot be written."""
    check_output(path)
    data = pa.table({name: pa.array(list(values)) for name, values in columns.items()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            parquet.write_table(data, path)
        elif path.suffix == ".csv":
            csv.write_csv(_encoded(data), path)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in data.to_pylist()), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error


def rows(path: Path, start: int, size: int = 1024) -> Iterator[dict[str, object] | None]:
    """The rows of a Parquet or CSV table from number `start` on, without holding the whole file.

    None stands for a CSV row of another width than the first.

    UsageError, after the rows before it, where the file is damaged. A cell that should be a list stays as it is.
    """
    malformed: list[None] = []
    ahead = start
    try:
        for batch in _batches(path, size, malformed):
            # The reader only says that it left rows out of this piece, not where: they come first.
            yield from malformed[ahead:]
            ahead = max(0, ahead - len(malformed))
            malformed.clear()
            if ahead < batch.num_rows:
                yield from map(_row, _plain(batch.slice(ahead)).to_pylist())
            ahead = max(0, ahead - batch.num_rows)
        yield from malformed[ahead:]
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def _row(cells: dict[str, object]) -> dict[str, object]:
    lists = (*LISTS, "label", "prediction") if cells.get("tokens") else LISTS
    return cells | {name: decoded(cells[name]) for name in lists if name in cells}


def _plain(batch: pa.RecordBatch) -> pa.Table:
    """The batch with its times in UTC and in microseconds, the finest that Python holds."""
    schema = pa.schema([field.with_type(MOMENT) if _dated(field.type) else field for field in batch.schema])
    return pa.Table.from_batches([batch]).cast(schema, safe=False)


MOMENT = pa.timestamp("us")


def _dated(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _unreadable(path: Path, error: Exception) -> UsageError:
    """What the reader says is wrong with the file, without the row itself, which may hold a user's text."""
    complaint = re.sub(r"(Expected \d+ columns, got \d+): .*", r"\1", str(error), flags=re.DOTALL)
    return UsageError(f"{path}: cannot be read as {path.suffix[1:]}: {complaint}")


def _batches(path: Path, size: int, malformed: list[None]) -> Iterator[pa.RecordBatch]:
    """Pieces of the file; a None is put into `malformed` for each CSV row that is left out."""

    def leave_out(_: object) -> str:
        malformed.append(None)
        return "skip"

    if path.suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=size)
    else:
        # The first piece would decide on the type of a column that is not ours, and a later one not fit it.
        lines = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=leave_out)
        with csv.open_csv(path, _CSV_PIECES, lines, _as_written(COLUMNS)) as reader:
            types = _as_written((*COLUMNS, *reader.schema.names))
        malformed.clear()
        with csv.open_csv(path, _CSV_PIECES, lines, types) as reader:
            yield from reader


def decoded(cell: object) -> object:
    """A list, which CSV holds as JSON text, as a list; anything else as it is."""
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _encoded(data: pa.Table) -> pa.Table:
    """Lists as JSON text, as CSV holds them."""
    for place, name in enumerate(data.column_names):
        if pa.types.is_list(data[name].type):
            cells = [None if cell is None else json.dumps(cell) for cell in data[name].to_pylist()]
            data = data.set_column(place, name, pa.array(cells, pa.string()))
    return data


def _found(cell: object) -> str:
    if not cell:
        return "nothing"
    return _numbers(len(cell)) if isinstance(cell, list) else "no list"


def _numbers(count: int) -> str:
    return f"{count} numbers" if count else "a list of numbers"


def _as_written(columns: Sequence[str]) -> csv.ConvertOptions:
    """These columns as text, just as it is written: an id such as 007 is no number, and a text NA not missing."""
    return csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True, null_values=[""]
    )


_CSV_LINES = csv.ParseOptions(newlines_in_values=True)
# One row must fit into one piece.
_CSV_PIECES = csv.ReadOptions(block_size=8 << 20)


def _read_csv(path: Path) -> pa.Table:
    return csv.read_csv(path, _CSV_PIECES, _CSV_LINES, _as_written(COLUMNS))


def _read_parquet(path: Path) -> pa.Table:
    return parquet.read_table(path)


def _read_jsonl(path: Path) -> pa.Table:
    data = arrow_json.read_json(path, _JSON_PIECES)
    dates = [field.name for field in data.schema if pa.types.is_timestamp(field.type)]
    if not dates:
        return data
    # Text that looks like a date is text all the same: an id must stay as it is.
    schema = pa.schema([(name, pa.string()) for name in dates])
    return arrow_json.read_json(path, _JSON_PIECES, arrow_json.ParseOptions(explicit_schema=schema))


# One row must fit into one piece.
_JSON_PIECES = arrow_json.ReadOptions(block_size=8 << 20)


_READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
}

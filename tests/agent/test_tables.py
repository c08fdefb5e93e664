"""Tables: three formats, one meaning, and one exact message for each mistake."""

# A row of a table of cases, with its whole message, stays on one line.
# ruff: noqa: ANN401, E501, PLR0913, PLR0917

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from agent.errors import UsageError
from agent.tables import Table, read_table, rows, write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LABELS = ("negative", "positive")
SUFFIXES = ("parquet", "csv", "jsonl")


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Table]:
    """Writes content to a file of this kind and reads it as a table."""

    def table(suffix: str, content: str | bytes | dict[str, Any]) -> Table:
        path = tmp_path / f"t.{suffix}"
        if isinstance(content, dict):
            parquet.write_table(pa.table(content), path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_table(path)

    return table


UNREADABLE: list[tuple[str, str | bytes, str]] = [
    ("csv", "text\n", "the table has no rows"),
    ("csv", "", "cannot be read as csv: Empty CSV file"),
    ("csv", "text,label\na,b\nsecret,b,c\n", "cannot be read as csv: CSV parse error: Expected 2 columns, got 3"),
    ("csv", b"text\ncaf\xe9\n", "cannot be read as csv: In CSV column #0: CSV conversion error to string: invalid UTF8 data"),
    ("csv", "text,id,text,id\na,b,c,d\n", "column 'id', 'text' occurs more than once. Remove one."),
    ("jsonl", "", "cannot be read as jsonl: Empty JSON file"),
    ("jsonl", '{"text": "a"}\n{"text": "b"', "cannot be read as jsonl: JSON parse error: Missing a comma or '}' after an object member. in row 1"),
    ("jsonl", "[1]\n", "cannot be read as jsonl: JSON parse error: Column() changed from object to array in row 0"),
    ("jsonl", '{"id": 1}\n{"id": "x"}\n', "cannot be read as jsonl: JSON parse error: Column(/id) changed from number to string in row 1"),
    ("jsonl", b'{"text": "caf\xe9"}\n', "cannot be read as jsonl: Column 0: In chunk 0: Invalid: Invalid UTF8 sequence at string index 0"),
    ("parquet", "not parquet at all", "cannot be read as parquet: Could not open Parquet input source"),
    ("xlsx", "x", "not a table Leadline reads: the name must end in .parquet, .csv or .jsonl"),
    ("CSV", "text\na\n", "not a table Leadline reads: the name must end in .parquet, .csv or .jsonl"),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "content", "message"), UNREADABLE)
def test_an_unreadable_table_says_why(
    table: Callable[..., Table], tmp_path: Path, suffix: str, content: str | bytes, message: str
) -> None:
    """The file is named, and what is wrong with it; never a row's text."""
    with pytest.raises(UsageError) as caught:
        table(suffix, content)
    found = str(caught.value)
    # What Arrow adds about a Parquet file is its own.
    assert found.startswith(f"{tmp_path / 't'}.{suffix}: {message}")
    assert suffix == "parquet" or found == f"{tmp_path / 't'}.{suffix}: {message}"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_absent_table_is_named(tmp_path: Path, suffix: str) -> None:
    """No such file, in every format."""
    path = tmp_path / f"absent.{suffix}"
    with pytest.raises(UsageError) as caught:
        read_table(path)
    assert str(caught.value) == f"{path}: no such file"


WIDE = {"text": ["a", "b", "c"]}
MISTAKES: list[tuple[str, Any, Callable[[Table], object], str]] = [
    ("csv", "id,body\n1,a\n", Table.texts, "column 'text' is missing. The table has: id, body."),
    ("csv", "id\n1\n", lambda t: t.need("text", "id", "label"), "columns 'text', 'label' are missing. The table has: id."),
    ("csv", "text\na\n", lambda t: t.labels(LABELS), "column 'label' is missing. The table has: text."),
    ("csv", "text\na\n", lambda t: t.matrix("logits", 2), "column 'logits' is missing. The table has: text."),
    ("csv", 'text,id\na,1\n"  ",2\n,3\n', Table.texts, "2 of 3 rows have no text (the first is row 2). Remove them or fill them in."),
    ("jsonl", '{"text": "a"}\n{"text": null}\n', Table.texts, "1 of 2 rows have no text (the first is row 2). Remove them or fill them in."),
    ("jsonl", '{"text": 5}\n', Table.texts, "1 of 1 rows have no text (the first is row 1). Remove them or fill them in."),
    ("csv", "label\npositive\nneutral\n", lambda t: t.labels(LABELS), "row 2 has label 'neutral', which the model does not know. Known labels: negative, positive."),
    ("csv", "label,id\npositive,1\n,2\n", lambda t: t.labels((*LABELS, "None")), "row 2 has no label. Remove it or fill it in."),
    ("parquet", {"label": [0, 1, 2]}, lambda t: t.labels("01"), "row 3 has label '2', which the model does not know. Known labels: 0, 1."),
    ("parquet", {"logits": [[1.0, 2.0], [1.0]]}, lambda t: t.matrix("logits", 2), "row 2: 'logits' has 1 numbers, expected 2 numbers."),
    ("parquet", {"logits": [[1.0, 2.0], None]}, lambda t: t.matrix("logits", 2), "row 2: 'logits' has nothing, expected 2 numbers."),
    ("parquet", {"logits": [[1.0, 2.0], []]}, lambda t: t.matrix("logits", 2), "row 2: 'logits' has nothing, expected 2 numbers."),
    ("parquet", {"logits": [[1.0, 2.0], [1.0, np.nan]]}, lambda t: t.matrix("logits", 2), "row 2: 'logits' holds NaN or infinity. Remove the row or mend it."),
    ("parquet", {"logits": [[1.0, 2.0], [1.0, None]]}, lambda t: t.matrix("logits", 2), "row 2: 'logits' holds NaN or infinity. Remove the row or mend it."),
    ("parquet", {"logits": [[-np.inf, 2.0]]}, lambda t: t.matrix("logits", 2), "row 1: 'logits' holds NaN or infinity. Remove the row or mend it."),
    ("parquet", {"logits": [1.0, 2.0]}, lambda t: t.matrix("logits", 2), "row 1: 'logits' has no list, expected 2 numbers."),
    ("parquet", {"logits": [["a", "b"]]}, lambda t: t.matrix("logits", 2), "'logits' must hold lists of numbers"),
    ("parquet", {"logits": [[[1], [2, 3]]]}, lambda t: t.matrix("logits", 2), "'logits' must hold lists of numbers"),
    ("parquet", {"features": [[1.0], [1.0, 2.0]]}, lambda t: t.matrix("features"), "row 2: 'features' has 2 numbers, expected 1 numbers."),
    ("parquet", {"features": [[], [1.0]]}, lambda t: t.matrix("features"), "row 1: 'features' has nothing, expected a list of numbers."),
    ("csv", 'text,logits\na,"[1, 2]"\nb,1 2\n', lambda t: t.matrix("logits", 2), "row 2: 'logits' has no list, expected 2 numbers."),
    ("csv", 'text,logits\na,"[1, 2"\n', lambda t: t.matrix("logits", 2), "row 1: 'logits' has no list, expected 2 numbers."),
    ("csv", 'text,logits\na,"{""x"": 1}"\n', lambda t: t.matrix("logits", 1), "row 1: 'logits' has no list, expected 1 numbers."),
    ("csv", "text,logits\na,5\n", lambda t: t.matrix("logits", 1), "row 1: 'logits' has no list, expected 1 numbers."),
    ("csv", f"text,logits\na,{'[' * 50_000}\n", lambda t: t.matrix("logits", 2), "row 1: 'logits' has no list, expected 2 numbers."),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "content", "use", "message"), MISTAKES, ids=[row[3][:40] for row in MISTAKES])
def test_each_mistake_has_its_message(
    table: Callable[..., Table],
    tmp_path: Path,
    suffix: str,
    content: Any,
    use: Any,
    message: str,
) -> None:
    """File, row, column, what was found and what was expected."""
    with pytest.raises(UsageError) as caught:
        use(table(suffix, content))
    assert str(caught.value) == f"{tmp_path / 't'}.{suffix}: {message}"


def test_csv_cells_stay_as_they_are_written(table: Callable[..., Table]) -> None:
    """Ids with zeros in front are not numbers, `NA` and `null` are words, and only an empty cell is missing."""
    read = table("csv", 'id,text,label,text_pair\n007,NA,1,null\n1e3,nan,0,\n,"two\nlines",1,""\n')
    assert read.ids() == ["007", "1e3", "3"]
    assert read.texts() == ["NA", "nan", "two\nlines"]
    assert read.pairs() == ["null", None, None]
    assert read.labels("01").tolist() == [1, 0, 1]


def test_json_text_that_looks_like_a_date_stays_text(table: Callable[..., Table]) -> None:
    """An id that is a moment is not rewritten."""
    read = table(
        "jsonl", '{"id": "2026-08-21T10:00:00Z", "text": "2026-08-21"}\n{"id": "2026-08-22", "text": "b"}\n'
    )
    assert read.ids() == ["2026-08-21T10:00:00Z", "2026-08-22"]
    assert read.texts() == ["2026-08-21", "b"]


@pytest.mark.parametrize(
    ("suffix", "content"),
    [("parquet", {"label": [1, 0]}), ("jsonl", '{"label": 1}\n{"label": 0}\n'), ("csv", "label\n1\n0\n")],
)
def test_class_indices_can_be_labels(table: Callable[..., Table], suffix: str, content: Any) -> None:
    """Where the model's labels are digits, whole numbers match them."""
    assert table(suffix, content).labels(("0", "1")).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("parquet", {"logits": [[1.0, -2.5], [0.0, 3.0]]}),
        ("parquet", {"logits": pa.array([[1.0, -2.5], [0.0, 3.0]], pa.list_(pa.float32(), 2))}),
        ("parquet", {"logits": pa.array([[1.0, -2.5], [0.0, 3.0]], pa.large_list(pa.float16()))}),
        ("jsonl", '{"logits": [1, -2.5]}\n{"logits": [0, 3]}\n'),
        ("csv", 'logits\n"[1, -2.5]"\n"[0, 3]"\n'),
    ],
)
def test_lists_are_numbers_in_every_format(table: Callable[..., Table], suffix: str, content: Any) -> None:
    """Lists of any arrow type, and JSON text in CSV, with and without a width to expect."""
    read = table(suffix, content)
    for width in (2, None):
        assert read.matrix("logits", width).tolist() == [[1.0, -2.5], [0.0, 3.0]]


def test_a_column_of_nothing_is_not_there(table: Callable[..., Table]) -> None:
    """A column with only nulls is had by nobody, but its name is not missing."""
    read = table("csv", "text,text_pair,id\na,,\nb,,\n")
    assert (read.has("text"), read.has("text_pair"), read.has("label")) == (True, False, False)
    assert read.pairs() is None
    assert read.ids() == ["1", "2"]
    read.need("text_pair")


def test_json_lines_go_by_another_name_too(table: Callable[..., Table]) -> None:
    """`.ndjson` is read as `.jsonl` is."""
    assert table("ndjson", '{"id": "007"}\n{"id": "008"}\n').ids() == ["007", "008"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    """Text, numbers, truth values and lists survive each format; the directory is made."""
    path = tmp_path / "new" / f"out.{suffix}"
    texts = ["plain", 'quote " and, comma', "two\nlines", "größe 🐟 NA"]
    logits = np.array([[1 / 3, -2.0], [0.0, 1e-300], [4.0, 5.0], [6.0, 7.0]])
    columns: dict[str, Any] = {
        "id": np.array(["001", "002", "null", "x"]),
        "text": texts,
        "text_pair": [None, "a", None, "b"],
        "logits": logits,
        "p_knn": np.array([0.05, 1.0, 1 / 3, 1e-9]),
        "ood": np.array([True, False, False, True]),
    }
    write_table(path, columns)
    read = read_table(path)
    assert read.data.column_names == list(columns)
    assert read.ids() == ["001", "002", "null", "x"]
    assert read.texts() == texts
    assert read.pairs() == [None, "a", None, "b"]
    np.testing.assert_array_equal(read.matrix("logits", 2), logits)
    assert read.data["p_knn"].to_pylist() == columns["p_knn"].tolist()
    assert read.data["ood"].to_pylist() == [True, False, False, True]


@pytest.mark.parametrize(("name", "message"), [
    ("out.xlsx", "not a table Leadline writes: the name must end in .parquet, .csv or .jsonl"),
    ("file/out.csv", "cannot be written: "),
])  # fmt: skip
def test_a_table_that_cannot_be_written_is_a_usage_error(tmp_path: Path, name: str, message: str) -> None:
    """A wrong ending, or a place that is no directory."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught:
        write_table(tmp_path / name, {"id": ["a"]})
    assert str(caught.value).startswith(f"{tmp_path / name}: {message}")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rows_come_in_pieces_from_any_row_on(tmp_path: Path, suffix: str) -> None:
    """Streaming gives each row once, from the one asked for."""
    path = tmp_path / f"t.{suffix}"
    write_table(path, {"id": [f"{row:02}" for row in range(25)], "logits": [[row, 1.0] for row in range(25)]})

    for start in (0, 1, 10, 24, 25, 99):
        found = [row["id"] if row else None for row in rows(path, start, size=10)]
        assert found == [f"{row:02}" for row in range(start, 25)]
    first = next(rows(path, 3))
    assert first is not None
    assert first["logits"] == [3.0, 1.0]


def test_a_csv_row_of_another_width_is_none(tmp_path: Path) -> None:
    """It takes a number of its own, so that streaming from any row on gives what streaming from the first gave."""
    path = tmp_path / "t.csv"
    path.write_text("id,text\n1,a\nonly\n2,b\n3,c,d,e\n4,f\n", encoding="utf-8")
    whole = list(rows(path, 0))
    assert [row["id"] for row in whole if row] == ["1", "2", "4"]
    assert whole.count(None) == 2
    for start in range(7):
        assert list(rows(path, start)) == whole[start:]

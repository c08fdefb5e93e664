"""The columns of a sequence labeller: three formats, one meaning, and one exact message for each mistake."""

# A row of a table of cases, with its whole message, stays on one line.
# ruff: noqa: E501

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from agent.errors import UsageError
from agent.items import Items
from agent.tables import Table, read_table, rows, write_table
from agent.token_columns import token_labels, token_logits

if TYPE_CHECKING:
    from pathlib import Path

LABELS = ("NOUN", "VERB")
GOOD: dict[str, list[Any]] = {
    "tokens": [["dogs", "bark"], ["stop"], ["cats", "do", "sleep"]],
    "logits": [[[2.0, -1.0], [0.5, 1.5]], [[0.0, 3.0]], [[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]]],
    "label": [["NOUN", "VERB"], ["VERB"], ["NOUN", "VERB", "VERB"]],
}


def written(directory: Path, suffix: str, **changes: list[Any]) -> Table:
    """The good table with other columns, in this format."""
    columns = GOOD | changes
    path = directory / f"t.{suffix}"
    if suffix == "jsonl":  # as it comes, so that a row may hold what arrow would not
        lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    elif suffix == "csv":
        write_table(path, {name: [json.dumps(cell) for cell in cells] for name, cells in columns.items()})
    else:
        parquet.write_table(pa.table(columns), path)
    return read_table(path)


def whole(table: Table) -> None:
    """Everything that a fit reads of a sequence labeller's table."""
    Items.of_table(table, logits=2, tokens=True)
    token_labels(table, LABELS)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_every_format_gives_the_same_items(tmp_path: Path, suffix: str) -> None:
    """Nested lists in Parquet and JSON Lines, and JSON text in CSV, are the same tokens, logits and labels."""
    table = written(tmp_path, suffix)
    tokens = token_logits(table, 2)
    assert tokens.starts.tolist() == [0, 2, 3, 6]
    assert tokens.values.tolist() == [numbers for row in GOOD["logits"] for numbers in row]
    assert token_labels(table, LABELS).tolist() == [0, 1, 1, 0, 1, 1]
    assert tokens.quality(token_labels(table, LABELS)).tolist() == [1.0, 1.0, 1.0]


def test_half_precision_lists_are_logits(tmp_path: Path) -> None:
    """Large and fixed-size lists of small numbers, as exports write them, are read as well."""
    kind = pa.large_list(pa.list_(pa.float16(), 2))
    tokens = token_logits(written(tmp_path, "parquet", logits=pa.array(GOOD["logits"], kind)), 2)
    assert tokens.values.dtype == np.float64
    assert tokens.values[0].tolist() == [2.0, -1.0]


def test_the_text_is_the_tokens_unless_there_is_one(tmp_path: Path) -> None:
    """Without a `text` column the encoder reads the tokens joined by spaces."""
    assert written(tmp_path, "parquet").texts() == ["dogs bark", "stop", "cats do sleep"]
    assert written(tmp_path, "parquet", text=["Dogs!", "Stop.", "x"]).texts() == ["Dogs!", "Stop.", "x"]


def test_items_carry_their_tokens_through_a_slice(tmp_path: Path) -> None:
    """A piece of a table's items has the logits of its own tokens, and no logits of whole texts."""
    part = Items.of_table(written(tmp_path, "parquet"), logits=2, tokens=True).slice(1, 9)
    assert (len(part), part.logits) == (2, None)
    assert part.tokens is not None
    assert part.tokens.by_item(part.tokens.values)[0].tolist() == [[0.0, 3.0]]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_streamed_rows_have_lists(tmp_path: Path, suffix: str) -> None:
    """The rows that an agent reads one by one hold lists in every format, labels too."""
    path = written(tmp_path, suffix).path
    first = next(rows(path, 0))
    assert first == {name: cells[0] for name, cells in GOOD.items()}


LOGITS = GOOD["logits"]
LABEL = GOOD["label"]
MISTAKES: list[tuple[str, dict[str, list[Any]], str]] = [
    ("parquet", {"logits": [LOGITS[0], LOGITS[0], LOGITS[2]]}, "row 2: 'logits' has 2 lists, expected 1, one for each token."),
    ("parquet", {"logits": [LOGITS[0], None, LOGITS[2]]}, "row 2: 'logits' has nothing, expected 1, one for each token."),
    ("parquet", {"logits": [[], [[0.0, 1.0]], LOGITS[2]]}, "row 1: 'logits' has nothing, expected 2, one for each token."),
    ("parquet", {"logits": [1.0, 2.0, 3.0]}, "row 1: 'logits' has no list, expected 2, one for each token."),
    ("parquet", {"logits": [[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]]}, "row 1, token 1: 'logits' has no list, expected 2."),
    ("parquet", {"logits": [LOGITS[0], [[0.0, 1.0, 2.0]], LOGITS[2]]}, "row 2, token 1: 'logits' has 3 numbers, expected 2."),
    ("parquet", {"logits": [LOGITS[0], LOGITS[1], [[0.0, 1.0], [0.0, np.nan], [0.0, 1.0]]]}, "row 3, token 2: 'logits' holds NaN or infinity. Remove the row or mend it."),
    ("parquet", {"logits": [[[0.0, 1.0], [0.0, None]], LOGITS[1], LOGITS[2]]}, "row 1, token 2: 'logits' holds NaN or infinity. Remove the row or mend it."),
    ("parquet", {"logits": [[["a", "b"], ["a", "b"]], [["a", "b"]], [["a", "b"]] * 3]}, "row 1: 'logits' must hold lists of numbers"),
    ("csv", {"logits": [LOGITS[0], "2, 1", LOGITS[2]]}, "row 2: 'logits' has no list, expected 1, one for each token."),
    ("csv", {"logits": [LOGITS[0], [{"a": 1}], LOGITS[2]]}, "row 2, token 1: 'logits' has no list, expected 2."),
    ("csv", {"logits": [LOGITS[0], [[10**400, 1]], LOGITS[2]]}, "row 2: 'logits' must hold lists of numbers"),
    ("parquet", {"label": [LABEL[0], LABEL[0], LABEL[2]]}, "row 2: 'label' has 2 labels, expected 1, one for each token."),
    ("parquet", {"label": [LABEL[0], ["ADJ"], LABEL[2]]}, "row 2 has label 'ADJ', which the model does not know. Known labels: NOUN, VERB."),
    ("parquet", {"label": [["NOUN", None], LABEL[1], LABEL[2]]}, "row 1: 'label' has something else in it, expected a list of strings."),
    ("parquet", {"label": ["NOUN", "VERB", "VERB"]}, "row 1: 'label' has no list, expected a list of strings."),
    ("parquet", {"tokens": [GOOD["tokens"][0], [], GOOD["tokens"][2]]}, "row 2: 'tokens' has nothing, expected a list of strings."),
    ("parquet", {"tokens": [[1, 2], [3], [4, 5, 6]]}, "row 1: 'tokens' has something else in it, expected a list of strings."),
    ("csv", {"tokens": [GOOD["tokens"][0], "stop", GOOD["tokens"][2]]}, "row 2: 'tokens' has no list, expected a list of strings."),
    ("jsonl", {"tokens": [GOOD["tokens"][0], None, GOOD["tokens"][2]]}, "row 2: 'tokens' has nothing, expected a list of strings."),
    ("jsonl", {"tokens": [["dogs", "bark"], [" "], ["cats", "do", "sleep"]]}, "1 of 3 rows have no text (the first is row 2). Remove them or fill them in."),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "changes", "message"), MISTAKES, ids=[row[2][:50] for row in MISTAKES])
def test_each_mistake_has_its_message(
    tmp_path: Path, suffix: str, changes: dict[str, list[Any]], message: str
) -> None:
    """File, row, token, what was found and what was expected."""
    table = written(tmp_path, suffix, **changes)
    with pytest.raises(UsageError) as caught:
        whole(table)
    assert str(caught.value) == f"{table.path}: {message}"


@pytest.mark.parametrize("absent", ["tokens", "logits", "label"])
def test_a_missing_column_is_named(tmp_path: Path, absent: str) -> None:
    """The message says which column is missing and which there are."""
    there = [name for name in GOOD if name != absent]
    write_table(tmp_path / "t.parquet", {"text": ["a", "b", "c"], **{name: GOOD[name] for name in there}})
    table = read_table(tmp_path / "t.parquet")
    with pytest.raises(UsageError) as caught:
        whole(table)
    assert str(caught.value) == (
        f"{table.path}: column '{absent}' is missing. The table has: {', '.join(['text', *there])}."
    )

"""Labels as they come back: appended, the last of an id counts, a crash costs at most the one being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.annotation.labels import append_labels, read_labels
from agent.errors import ArtefactError
from agent.records import Label

if TYPE_CHECKING:
    from pathlib import Path


def _append(directory: Path, *labels: Label) -> None:
    append_labels(directory, labels)


def test_labels_come_back_as_they_were_appended(tmp_path: Path) -> None:
    """Of a text one label, of tokens one each; the file is private."""
    _append(tmp_path, Label("a", "positive", 1.0), Label("b", ("O", "PER"), 2.5))
    _append(tmp_path, Label("c", "negative", 3.0))
    assert read_labels(tmp_path) == {
        "a": Label("a", "positive", 1.0),
        "b": Label("b", ("O", "PER"), 2.5),
        "c": Label("c", "negative", 3.0),
    }
    assert (tmp_path / "labels.jsonl").stat().st_mode & 0o777 == 0o600
    assert len((tmp_path / "labels.jsonl").read_bytes().splitlines()) == 3


def test_the_last_label_of_an_id_counts(tmp_path: Path) -> None:
    """Whatever their times: the clock may have been set back before a label was corrected."""
    _append(tmp_path, Label("a", "positive", 5.0))
    _append(tmp_path, Label("a", "negative", 4.0))
    assert read_labels(tmp_path)["a"].label == "negative"
    _append(tmp_path, Label("a", "positive", 4.0), Label("a", "negative", 4.5))
    assert read_labels(tmp_path)["a"].label == "negative"
    (tmp_path / "labels.jsonl").write_bytes(
        b'{"id": "a", "label": "old", "time": 9}\n{"id": "a", "label": "new", "time": 8}\n'
    )
    assert read_labels(tmp_path)["a"].label == "new"


def test_labels_that_are_read_again_undo_nothing_said_since(tmp_path: Path) -> None:
    """After a crash a source brings a label with its old time; what was imported meanwhile stays."""
    read = [Label("a", "positive", 1.0), Label("b", ("O", "PER"), 1.0)]
    _append(tmp_path, *read)
    _append(tmp_path, Label("a", "negative", 2.0), Label("b", ("O", "O"), 2.0))
    _append(tmp_path, *read)
    assert {label.label for label in read_labels(tmp_path).values()} == {"negative", ("O", "O")}


def test_labels_that_come_again_change_nothing(tmp_path: Path) -> None:
    """A label that repeats what is known is not written again, as after a crash, with a later arrival or not."""
    _append(tmp_path, Label("a", "positive", 1.0))
    before = (tmp_path / "labels.jsonl").read_bytes()
    _append(tmp_path, Label("a", "positive", 1.0), Label("a", "positive", 7.0))
    assert (tmp_path / "labels.jsonl").read_bytes() == before


@given(st.integers(1, 40))
def test_a_line_cut_short_by_a_crash_was_never_there(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """However much of it was written; the next label is written over it."""
    directory = tmp_path_factory.mktemp("cut")
    _append(directory, Label("a", "positive", 1.0))
    path = directory / "labels.jsonl"
    line = path.read_bytes().replace(b'"a"', b'"b"')
    path.write_bytes(path.read_bytes() + line[: min(cut, len(line) - 2)])
    assert set(read_labels(directory)) == {"a"}
    _append(directory, Label("c", "negative", 2.0))
    assert set(read_labels(directory)) == {"a", "c"}


def test_a_last_line_without_its_end_counts(tmp_path: Path) -> None:
    """An editor may leave it out; the next label begins a line of its own."""
    (tmp_path / "labels.jsonl").write_bytes(b'{"id": "a", "label": "positive", "time": 1}')
    assert set(read_labels(tmp_path)) == {"a"}
    _append(tmp_path, Label("b", "negative", 2.0))
    assert set(read_labels(tmp_path)) == {"a", "b"}


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[]",
        '{"id": 1, "label": "a", "time": 1}',
        '{"id": "a", "label": 1, "time": 1}',
        '{"id": "a", "label": [], "time": 1}',
        '{"id": "a", "label": "x", "time": null}',
        '{"id": "a", "label": "x", "time": true}',
    ],
)
def test_a_line_that_is_no_label_is_named(tmp_path: Path, line: str) -> None:
    """The error names the file and the line."""
    good = '{"id": "a", "label": "positive", "time": 1}'
    (tmp_path / "labels.jsonl").write_text(f"{good}\n\n{line}\n{good}\n", encoding="utf-8")
    with pytest.raises(ArtefactError, match=r"labels\.jsonl: line 3 is no label"):
        read_labels(tmp_path)


def test_without_a_file_there_are_no_labels(tmp_path: Path) -> None:
    """Nothing has come back yet."""
    assert read_labels(tmp_path) == {}

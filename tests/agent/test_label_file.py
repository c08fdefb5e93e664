"""Files of labels: tables and exports of Label Studio, and every way in which they can be wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import UsageError
from agent.label_file import Checked, check_labels, read_label_file
from agent.tables import write_table

if TYPE_CHECKING:
    from pathlib import Path

IDS, NAMES = ("a", "b", "7"), ("negative", "positive")


def checked(path: Path) -> Checked:
    """The labels of a file for a batch of three items."""
    return check_labels(read_label_file(path), IDS, NAMES, path)


def task(name: object, *choices: str, cancelled: bool = False) -> dict[str, Any]:
    """A task as Label Studio exports it, with an annotation for each choice."""
    annotations = [
        {"was_cancelled": cancelled, "result": [{"type": "choices", "value": {"choices": [choice]}}]}
        for choice in choices
    ]
    return {"id": 901, "data": {"id": name, "text": "x"}, "annotations": annotations, "predictions": []}


def exported(directory: Path, *tasks: object) -> Path:
    """An export of these tasks."""
    path = directory / "export.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl", "labels.parquet", "labels.ndjson"])
def test_tables(tmp_path: Path, name: str) -> None:
    """Each format of table brings the same labels; ids stay as they are written."""
    path = tmp_path / name
    written = path.with_suffix(path.suffix.replace("ndjson", "jsonl"))
    write_table(written, {"id": ["a", "7"], "label": ["positive", "negative"], "who": ["x", "y"]})
    written.rename(path)
    assert checked(path) == Checked({"a": "positive", "7": "negative"}, repeated=0, empty=0)


def test_rows_without_a_label_are_not_labelled_yet(tmp_path: Path) -> None:
    """An item that nobody has labelled yet is counted and passed over, and a row twice is one label."""
    path = tmp_path / "labels.jsonl"
    rows = [{"id": "a", "label": "positive"}, {"id": "b"}, {"id": "a", "label": "positive"}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert checked(path) == Checked({"a": "positive"}, repeated=1, empty=1)


def test_an_export_of_label_studio(tmp_path: Path) -> None:
    """The choice of each task that was not cancelled is its label; a task without one is not labelled yet."""
    path = exported(
        tmp_path,
        task("a", "positive", "positive"),
        task(7, "negative"),
        task("b", "negative", cancelled=True),
    )
    assert checked(path) == Checked({"a": "positive", "7": "negative"}, repeated=1, empty=1)


def test_a_minimal_export_of_label_studio(tmp_path: Path) -> None:
    """JSON-MIN, where fields lie flat, is read as well."""
    tasks = [
        {"id": "a", "text": "x", "label": "positive", "annotation_id": 3},
        {"id": "7", "text": "x", "label": {"choices": ["negative"]}},
        {"id": "b", "text": "x"},
    ]
    assert checked(exported(tmp_path, *tasks)) == Checked({"a": "positive", "7": "negative"}, 0, 1)


def test_the_number_of_a_task_is_not_the_id_of_its_item(tmp_path: Path) -> None:
    """JSON-MIN and some versions' CSV have the task's number under `id`: `leadline_id` says which item it is."""
    told = {"annotator": 1, "annotation_id": 50, "created_at": "2026-11-21T20:00:00.000000Z", "lead_time": 3.25}
    rest = {"text": "x", "slice": "web", "episode": "abc", "dissimilar": False}
    tasks = [
        {"id": 900, "leadline_id": "a", **rest, "label": "positive", **told},
        {"id": 7, "leadline_id": "b", **rest, "label": "negative", **told},
        {"id": 902, "leadline_id": "7", **rest, **dict.fromkeys(told)},
    ]
    expected = Checked({"a": "positive", "b": "negative"}, repeated=0, empty=1)
    assert checked(exported(tmp_path, *tasks)) == expected
    path = tmp_path / "result.csv"
    path.write_text(
        '"annotation_id","annotator","created_at","dissimilar","episode","id","label","lead_time","leadline_id","text"\n'
        '50,"1","2026-11-21T20:00:00.000000Z",True,"abc",900,"positive",3.25,"a","a ""line""\nend"\n'
        '51,"1","2026-11-21T20:00:00.000000Z",False,"abc",7,"negative",3.25,"b","x"\n'
        '"","","",False,"abc",902,"","","7","x"\n',
        encoding="utf-8",
    )
    assert checked(path) == expected


def test_blanks_around_ids_and_labels_do_not_count(tmp_path: Path) -> None:
    """As a spreadsheet leaves them; an id that has blanks of its own is found as it is."""
    path = tmp_path / "labels.csv"
    path.write_text("id,label\na , positive\n b,negative\nb,negative\n 7,positive\n", encoding="utf-8")
    given = read_label_file(path)
    assert check_labels(given, ("a", "b", " 7", "7"), NAMES, path).labels == {
        "a": "positive",
        "b": "negative",
        " 7": "positive",
    }


def test_every_finding_is_named_with_its_row(tmp_path: Path) -> None:
    """Unknown ids and labels, contradictions and rows without an id are all told at once, and nothing is taken."""
    path = tmp_path / "labels.jsonl"
    rows = [
        {"id": "a", "label": "positive"},
        {"id": "zzz", "label": "positive"},
        {"id": "b", "label": "neutral"},
        {"id": "a", "label": "negative"},
        {"label": "negative"},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with pytest.raises(UsageError) as error:
        checked(path)
    assert str(error.value).splitlines() == [
        f"{path}: row 2: the batch has no item 'zzz'",
        f"{path}: row 3 has label 'neutral', which the model does not know. Known labels: negative, positive",
        f"{path}: row 4: 'a' is labelled 'negative', but in row 1 'positive'. Decide for one.",
        f"{path}: row 5 has no id",
        "No label was imported.",
    ]


def test_many_findings_are_cut(tmp_path: Path) -> None:
    """A file of something else gives twenty findings and their number, not thousands; long names are cut."""
    path = tmp_path / "labels.csv"
    write_table(path, {"id": ["x" * 500] * 50, "label": ["positive"] * 50})
    with pytest.raises(UsageError) as error:
        checked(path)
    lines = str(error.value).splitlines()
    assert len(lines) == 22
    assert lines[20].endswith("and 30 more findings")
    assert max(map(len, lines)) < 300


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "cannot be read as JSON"),
        ("{}", "not an export of Label Studio"),
        ("[]", "there are no labels: the list of tasks is empty"),
        ("[3]", "task 1 is no object"),
        ("[" * 100_000, "cannot be read as JSON"),
        (json.dumps([{"data": {"id": "a"}, "annotations": [{"result": [{"type": "labels"}]}]}]), "not a choice"),
        (json.dumps([{"id": "a", "label": ["positive", "negative"]}]), "expected one label"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, content: str, message: str) -> None:
    """What is no export of labels for whole texts is refused by its name and the task."""
    path = tmp_path / "export.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_label_file(path)


@pytest.mark.parametrize("broken", [{"data": None}, {"data": {"id": None}}, {"data": {"id": True}}, {"data": {}}])
def test_tasks_without_an_id_are_findings(tmp_path: Path, broken: dict[str, Any]) -> None:
    """A task whose item cannot be told is a finding."""
    with pytest.raises(UsageError, match="task 1 has no id"):
        checked(exported(tmp_path, task("a", "positive") | broken))


def test_files_that_are_not_there_or_no_tables(tmp_path: Path) -> None:
    """A missing file, an unknown format and a table without labels say what is wrong."""
    for name, message in (("none.json", "no such file"), ("none.csv", "no such file"), ("x.txt", "must end in")):
        with pytest.raises(UsageError, match=message):
            read_label_file(tmp_path / name)
    write_table(tmp_path / "ids.csv", {"id": ["a"]})
    with pytest.raises(UsageError, match="column 'label' is missing"):
        read_label_file(tmp_path / "ids.csv")

"""Bad input: each ends with its exit code and a message that a stranger can act on, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cli.workbench import leadline, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cli.conftest import TaskTables
    from tests.cli.workbench import Bench, Outcome


def _fit(bench: Bench, tmp_path: Path, **changes: object) -> Outcome:
    done = leadline("fit", bench.fit_config(tmp_path / "fit.yaml", **changes), "--out", tmp_path / "reference")
    assert not (tmp_path / "reference").exists()
    return done


def _refused(done: Outcome, *complaints: object) -> None:
    assert (done.code, done.complaints) == (2, [str(complaint) for complaint in complaints])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"typo": 1}, "typo: unknown key. Remove it, or check its spelling."),
        ({"model__output": "head"}, "model.output: unknown key. Remove it, or check its spelling."),
        ({"source__test": None}, "source.test: missing. It has no default."),
        ({"model__outputs": "heads"}, "model.outputs: Input should be 'head', 'table' or 'onnx' (found: 'heads')"),
        ({"detectors__bank": 0}, "detectors.bank: Input should be greater than or equal to 1 (found: 0)"),
        ({"model__name": "two words"}, "model.name: String should match pattern "),
        ({"model__labels": ["one"]}, "model.labels: expected at least 2, found 1"),
        ({"model__labels": ["one", "one"]}, "model: labels must all be different "),
        ({"model__outputs": "onnx"}, "model: `path` goes with `outputs: onnx`, and only with it "),
        (
            {"model__head": "head.safetensors"},
            "model: `outputs: head` trains the head itself: remove `head`, or choose `table` or `onnx` ",
        ),
    ],
)
def test_a_wrong_key_or_value(changes: dict[str, object], complaint: str, bench: Bench, tmp_path: Path) -> None:
    """A key that is unknown or missing, or a value that cannot be, is named with its place in the file."""
    done = _fit(bench, tmp_path, **changes)
    assert done.code == 2
    (line,) = done.complaints
    assert line.startswith(f"{tmp_path}/fit.yaml: {complaint}")


def test_every_mistake_is_told_at_once(bench: Bench, tmp_path: Path) -> None:
    """Two mistakes in one file are two lines."""
    config = tmp_path / "fit.yaml"
    _refused(
        _fit(bench, tmp_path, typo=1, source__test=None),
        f"{config}: source.test: missing. It has no default.",
        f"{config}: typo: unknown key. Remove it, or check its spelling.",
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "expected keys and values at the top, for example `model:`"),
        (b"- a list", "expected keys and values at the top, for example `model:`"),
        (b"model: [1", "cannot be read as YAML: while parsing a flow sequence"),
        (b"\xff\xfe\x00", "cannot be read as YAML: "),
        (
            b"model: !!python/object/apply:os.getcwd []",
            "cannot be read as YAML: could not determine a constructor",
        ),
    ],
)
def test_a_file_that_is_no_configuration(content: bytes, complaint: str, tmp_path: Path) -> None:
    """A file that is not YAML with keys is said to be so, and nothing in it is executed."""
    (tmp_path / "fit.yaml").write_bytes(content)
    done = leadline("fit", tmp_path / "fit.yaml", "--out", tmp_path / "reference")
    assert done.code == 2
    assert done.complaints[0].startswith(f"{tmp_path}/fit.yaml: {complaint}")


@pytest.mark.parametrize("command", ["fit", "check", "run"])
def test_a_configuration_that_is_not_there(command: str, tmp_path: Path) -> None:
    """A missing configuration file is named."""
    out = ["--out", tmp_path / "reference"] if command == "fit" else []
    _refused(leadline(command, tmp_path / "absent.yaml", *out), f"{tmp_path}/absent.yaml: no such file")


def test_an_encoder_that_is_not_there(bench: Bench, tmp_path: Path) -> None:
    """A missing encoder directory is named, with what it should hold."""
    absent = tmp_path / "absent"
    _refused(
        _fit(bench, tmp_path, encoder=absent),
        f"{absent} has no model.onnx (nor onnx/model.onnx); expected model.onnx and tokenizer.json",
    )


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"label": None}, "column 'label' is missing. The table has: id, text."),
        ({"text": None}, "column 'text' is missing. The table has: id, label."),
        (
            {"label": ["positive"] * 59 + ["meh"]},
            "row 60 has label 'meh', which the model does not know. Known labels: negative, positive.",
        ),
        (
            {"text": ["good"] * 58 + [" ", "bad"]},
            "1 of 60 rows have no text (the first is row 59). Remove them or fill them in.",
        ),
        ({"label": ["positive"] * 60}, "every row is 'positive': at least two labels are needed"),
    ],
)
def test_a_table_that_does_not_fit(
    columns: dict[str, Sequence[str] | None], complaint: str, bench: Bench, tmp_path: Path
) -> None:
    """A missing column, an unknown label, an empty text and a single class name the table and the row."""
    train = table(tmp_path / "train.csv", bench.texts["tweets"][:60], **columns)
    _refused(_fit(bench, tmp_path, source__train=train), f"{train}: {complaint}")


def test_ten_rows_are_too_few(bench: Bench, tmp_path: Path) -> None:
    """A table of ten rows is refused, whichever split it is."""
    few = table(tmp_path / "few.jsonl", bench.texts["tweets"][:10])
    for split in ("train", "validation", "test"):
        _refused(
            _fit(bench, tmp_path, **{f"source__{split}": few}),
            f"{few}: 10 rows are too few, at least 50 are needed",
        )


def test_a_label_that_training_never_saw(bench: Bench, tmp_path: Path) -> None:
    """A label without a training row is refused: a head cannot learn it."""
    _refused(
        _fit(bench, tmp_path, model__labels=["negative", "positive", "neutral"]),
        f"{bench.root}/train.parquet: no row is labelled 'neutral': a head cannot learn it",
    )


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("absent.csv", None, "no such file"),
        ("table.xlsx", b"", "not a table Leadline reads: the name must end in .parquet, .csv or .jsonl"),
        ("broken.parquet", b"PAR1 this is no Parquet", "cannot be read as parquet: "),
        ("broken.jsonl", b'{"text": \n', "cannot be read as jsonl: "),
        ("empty.csv", b"text,label\n", "the table has no rows"),
    ],
)
def test_a_table_that_cannot_be_read(
    name: str, content: bytes | None, complaint: str, bench: Bench, tmp_path: Path
) -> None:
    """A table that is absent, damaged, empty or of another kind is named, in a fit and to be scored."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    for done in (
        _fit(bench, tmp_path, domains__broken=path),
        leadline("score", bench.reference, path, "--out", tmp_path / "out.csv"),
    ):
        assert done.code == 2
        assert done.complaints[0].startswith(f"{path}: {complaint}")


def test_logits_that_do_not_fit(bench: Bench, task_tables: TaskTables, tmp_path: Path) -> None:
    """Logits that are absent, of another width, or not numbers name the table, the row and what was expected."""
    logits, texts = task_tables.logits.tolist(), task_tables.texts
    faults = {
        "column 'logits' is missing. The table has: id, text, label.": None,
        "row 1: 'logits' has 3 numbers, expected 2": [[*row, 0.0] for row in logits],
        "row 4: 'logits' holds NaN or infinity. Remove the row or mend it.": [
            *logits[:3],
            [np.nan, 1.0],
            *logits[4:],
        ],
    }
    for complaint, column in faults.items():
        path = table(tmp_path / "bad.parquet", texts, logits=column)
        tables = {name: str(given) for name, given in task_tables.bare.items()} | {"test": str(path)}
        done = _fit(bench, tmp_path, model__outputs="table", source=tables, domains=None)
        assert done.code == 2
        assert done.complaints[0].startswith(f"{path}: {complaint}")


def test_places_that_cannot_be_written(bench: Bench, tmp_path: Path) -> None:
    """A file in the way of `--json` ends in words that name it."""
    (tmp_path / "a-file").touch()
    texts = table(tmp_path / "texts.csv", bench.texts["tweets"][600:603])
    place = tmp_path / "a-file" / "facts.json"
    done = leadline("score", bench.reference, texts, "--out", tmp_path / "out.csv", "--json", place)
    assert done.code == 2
    assert done.complaints[0].startswith(f"{place}: cannot be written: ")

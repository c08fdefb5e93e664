"""`leadline fit`: what it freezes, shows and writes, for each place that a task model's outputs may come from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from detectors.table import DETECTORS
from tests.cli.workbench import columns, facts, leadline, records, stream, table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import OnnxTaskModel, TaskTables
    from tests.cli.workbench import Bench, Outcome

WITHOUT_FEATURES = {
    "react": "it needs features, head, which the model does not give",
    "dice": "it needs features, head, which the model does not give",
    "gradnorm": "it needs features, which the model does not give",
    "vim": "it needs features, head, which the model does not give",
}


def _hashes(directory: Path) -> dict[str, str]:
    files = [path for path in directory.iterdir() if path.name != "manifest.json"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _fit(bench: Bench, tmp_path: Path, **changes: object) -> tuple[Outcome, dict[str, Any]]:
    done = leadline(
        "fit",
        bench.fit_config(tmp_path / "fit.yaml", **changes),
        "--out",
        tmp_path / "reference",
        "--json",
        tmp_path / "fit.json",
    )
    return done, facts(tmp_path / "fit.json") if done.code == 0 else {}


def _given(tables: dict[str, Path]) -> dict[str, Any]:
    return {"source": {name: str(path) for name, path in tables.items()}, "domains": None}


def test_a_second_fit_is_the_same(bench: Bench) -> None:
    """The same inputs give the same id and the same bytes in every file, wherever the reference is written."""
    again = bench.root / "again"
    done = leadline("fit", bench.root / "fit.yaml", "--out", again, "--json", bench.root / "again.json")
    assert done.code == 0
    assert facts(bench.root / "again.json") == facts(bench.root / "fit.json")
    assert _hashes(again) == _hashes(bench.reference)


def test_the_facts_describe_the_reference(bench: Bench) -> None:
    """`--json` tells the id, the encoder, the rows, the accuracies and the shift of every reference domain."""
    told = facts(bench.root / "fit.json")
    assert told["labels"] == ["negative", "positive"]
    assert told["rows"] == {"train": 300, "validation": 150, "test": 100}
    assert told["detectors"] == list(DETECTORS)
    assert told["unavailable"] == {}
    assert (told["encoder"]["name"], told["encoder"]["path"]) == ("all-MiniLM-L6-v2", "../encoder")
    assert [domain["name"] for domain in told["domains"]] == ["amazon", "editorials"]
    for domain in told["domains"]:
        assert domain["n"] == 100
        assert domain["drop"] == pytest.approx(told["accuracy"]["test"] - domain["accuracy"])
        assert told["shift"][domain["name"]]["ood_knn"] > 0.2
        assert told["shift"][domain["name"]]["q"] < 0.3


def test_a_person_sees_the_source_and_the_domains(bench: Bench) -> None:
    """The terminal shows the accuracy of each split and of each reference domain, and where the reference is."""
    shown = (bench.root / "fit.out").read_text(encoding="utf-8")
    for word in (
        "train",
        "validation",
        "test",
        "amazon",
        "editorials",
        "OOD",
        "estimated",
        "agreement",
        facts(bench.root / "fit.json")["id"],
    ):
        assert word in shown


def test_outputs_from_tables_with_features_and_head(bench: Bench, task_tables: TaskTables, tmp_path: Path) -> None:
    """With logits, features and the head's weights in hand, all nine detectors are fitted, scored and run."""
    done, told = _fit(
        bench, tmp_path, model__outputs="table", model__head=task_tables.head, **_given(task_tables.splits)
    )
    assert done.code == 0, done.err
    assert (told["detectors"], told["unavailable"]) == (list(DETECTORS), {})
    truth = np.array([label == "positive" for _, label in task_tables.texts])
    assert told["accuracy"]["test"] == (task_tables.logits.argmax(axis=1) == truth).mean()

    scored = leadline(
        "score", tmp_path / "reference", task_tables.splits["test"], "--out", tmp_path / "scored.parquet"
    )
    assert scored.code == 0, scored.err
    predicted = [name == "positive" for name in columns(tmp_path / "scored.parquet")["prediction"]]
    assert predicted == (task_tables.logits.argmax(axis=1) == 1).tolist()

    events = _run_on_the_wire(bench, task_tables, tmp_path)
    assert (events["processed"], events["discarded"]) == (len(task_tables.texts) - 3, WIRE_FAULTS)


WIRE_FAULTS = {"logits_width": 1, "no_features": 1, "no_logits": 1}


def _run_on_the_wire(bench: Bench, tables: TaskTables, tmp_path: Path) -> dict[str, Any]:
    lines = records(tables.texts)
    for line, logits, features in zip(lines, tables.logits.tolist(), tables.features.tolist(), strict=True):
        line |= {"logits": logits, "features": features}
    del lines[0]["logits"], lines[1]["features"]
    lines[2]["logits"] = [1.0, 2.0, 3.0]
    config = bench.run_config(
        tmp_path / "run.yaml", stream(tmp_path / "wire.jsonl", lines), reference=tmp_path / "reference"
    )
    done = leadline("run", config, "--json", tmp_path / "run.json")
    assert done.code == 0, done.err
    events: dict[str, Any] = facts(tmp_path / "run.json")["events"]
    return events


def test_outputs_from_tables_without_features(bench: Bench, task_tables: TaskTables, tmp_path: Path) -> None:
    """Without features, what cannot be fitted is listed with the reason, in the facts and on the terminal."""
    done, told = _fit(bench, tmp_path, model__outputs="table", **_given(task_tables.bare))
    assert done.code == 0, done.err
    assert told["unavailable"] == WITHOUT_FEATURES
    assert told["detectors"] == [name for name in DETECTORS if name not in WITHOUT_FEATURES]
    shown = " ".join(done.out.split())
    for name, reason in WITHOUT_FEATURES.items():
        assert f"{name} is not available: {reason}" in shown
    scored = leadline(
        "score", tmp_path / "reference", task_tables.bare["test"], "--out", tmp_path / "scored.parquet"
    )
    assert scored.code == 0, scored.err
    assert "p_vim" not in columns(tmp_path / "scored.parquet")


def test_an_unavailable_primary_is_refused(bench: Bench, task_tables: TaskTables, tmp_path: Path) -> None:
    """A primary detector that cannot be fitted ends the fit with the reason, and leaves no reference."""
    done, _ = _fit(bench, tmp_path, model__outputs="table", detectors__primary="vim", **_given(task_tables.bare))
    assert done.code == 2
    assert done.complaints == [f"detectors.primary: vim is not available: {WITHOUT_FEATURES['vim']}"]
    assert not (tmp_path / "reference").exists()


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("another", "this is not the head that made them"),
        ("transposed", "for 2 labels, weight must be (2, features) and bias (2,); found (12, 2) and (2,)"),
        ("wider", "the head takes 13 features, the tables have 12"),
        ("unnamed", "expected arrays `weight` and `bias`, found: kernel"),
        ("pickle", "cannot be read as safetensors"),
        ("absent", "no such file"),
    ],
)
def test_a_wrong_head_is_refused(
    fault: str, complaint: str, bench: Bench, task_tables: TaskTables, tmp_path: Path
) -> None:
    """A head file that did not make the tables' logits is refused before anything is encoded."""
    weight, bias = load_file(task_tables.head).values()
    if bias.ndim != 1:
        weight, bias = bias, weight
    head = tmp_path / "head.safetensors"
    arrays = {
        "another": {"weight": weight + 1, "bias": bias},
        "transposed": {"weight": np.ascontiguousarray(weight.T), "bias": bias},
        "wider": {"weight": np.pad(weight, ((0, 0), (0, 1))), "bias": bias},
        "unnamed": {"kernel": weight},
    }
    if fault in arrays:
        save_file(arrays[fault], head)
    elif fault == "pickle":
        head.write_bytes(b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00N.")
    done, _ = _fit(bench, tmp_path, model__outputs="table", model__head=head, **_given(task_tables.splits))
    assert done.code == 2
    (line,) = done.complaints
    assert line.startswith(f"{head}: ")
    assert complaint in line
    assert "train " not in done.out


def test_a_task_model_with_features(bench: Bench, onnx_task: OnnxTaskModel, tmp_path: Path) -> None:
    """An ONNX task model predicts, and its features and head give all nine detectors, of tables and streams."""
    done, told = _fit(
        bench,
        tmp_path,
        model__outputs="onnx",
        model__path=onnx_task.both,
        model__head=onnx_task.head,
        **_given(onnx_task.splits),
    )
    assert done.code == 0, done.err
    assert told["detectors"] == list(DETECTORS)
    scored = leadline(
        "score", tmp_path / "reference", onnx_task.splits["test"], "--out", tmp_path / "scored.parquet"
    )
    assert scored.code == 0, scored.err
    assert columns(tmp_path / "scored.parquet")["prediction"] == onnx_task.predicted
    lines = stream(tmp_path / "stream.jsonl", records(bench.texts["tweets"][600:630]))
    ran = leadline("run", bench.run_config(tmp_path / "run.yaml", lines, reference=tmp_path / "reference"))
    assert ran.code == 0, ran.err
    assert ran.log[-1]["processed"] == 30


def test_a_task_model_without_features(bench: Bench, onnx_task: OnnxTaskModel, tmp_path: Path) -> None:
    """A task model that gives only logits is enough; a changed or absent one is told apart from it later."""
    model = tmp_path / "model"
    onnx_task.logits_only.rename(model)
    done, told = _fit(bench, tmp_path, model__outputs="onnx", model__path=model, **_given(onnx_task.splits))
    assert done.code == 0, done.err
    assert told["unavailable"] == WITHOUT_FEATURES

    arguments = ("score", tmp_path / "reference", onnx_task.splits["test"], "--out", tmp_path / "scored.csv")
    assert leadline(*arguments).code == 0
    model.rename(tmp_path / "elsewhere")
    absent = leadline(*arguments)
    assert absent.code == 2
    assert "the task model of reference" in absent.err
    model.symlink_to(onnx_task.both)
    other = leadline(*arguments)
    assert other.code == 3
    assert "is not the task model that reference" in other.err


def test_a_task_model_of_other_classes_is_refused(bench: Bench, onnx_task: OnnxTaskModel, tmp_path: Path) -> None:
    """A task model whose logits do not match the labels is refused before anything is encoded."""
    done, _ = _fit(
        bench, tmp_path, model__outputs="onnx", model__path=onnx_task.narrow, **_given(onnx_task.splits)
    )
    assert done.code == 2
    assert done.complaints == [
        f"{onnx_task.narrow}: the task model gives 1 logits, but the configuration names 2 labels"
    ]
    assert "train " not in done.out


def test_text_pairs(bench: Bench, tmp_path: Path) -> None:
    """A `text_pair` column is read with the text in a fit, in a table to score, and in a record."""
    tweets = bench.texts["tweets"]
    pairs = {
        name: table(tmp_path / f"{name}.parquet", rows, text_pair=[other for other, _ in reversed(rows)])
        for name, rows in (("train", tweets[:100]), ("validation", tweets[300:360]), ("test", tweets[450:500]))
    }
    done, _ = _fit(bench, tmp_path, **_given(pairs))
    assert done.code == 0, done.err
    alone = table(tmp_path / "alone.parquet", tweets[450:500])
    ratio = {}
    for name, path in (("pairs", pairs["test"]), ("alone", alone)):
        scored = leadline(
            "score", tmp_path / "reference", path, "--out", tmp_path / "scored.csv", "--json", tmp_path / "s.json"
        )
        assert scored.code == 0, scored.err
        ratio[name] = facts(tmp_path / "s.json")["ood"]["depth"]
    assert ratio["pairs"] < ratio["alone"]
    lines = [line | {"text_pair": tweets[row][0]} for row, line in enumerate(records(tweets[600:620]))]
    config = bench.run_config(
        tmp_path / "run.yaml", stream(tmp_path / "s.jsonl", lines), reference=tmp_path / "reference"
    )
    assert leadline("run", config).log[-1]["processed"] == 20

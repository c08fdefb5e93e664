"""One small real fit that the tests of the command line share."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from sklearn.decomposition import TruncatedSVD  # type: ignore[import-untyped] # ships no types
from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped] # as above
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped] # as above

from agent.demo_texts import HALF, write_demo_tables
from agent.encoder import Encoder
from agent.errors import ServiceError
from tests.cli.workbench import LABELS, Bench, columns, leadline, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.cli.workbench import Rated

SPLITS = {"train": slice(300), "validation": slice(300, 450), "test": slice(450, 550)}
# Enough for every detector, and quick: tables for the fits that a single test needs.
SMALL = {"train": slice(100), "validation": slice(300, 360), "test": slice(450, 500)}
FEATURES = 12


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, encoder_int8: Path) -> Bench:
    """Encoder, tables of real texts, and the reference fitted on tweets."""
    root = tmp_path_factory.mktemp("bench")
    shutil.copytree(encoder_int8, root / "encoder")
    made = Bench(root, _texts(root / "all"))
    for name, rows in SPLITS.items():
        table(root / f"{name}.parquet", made.texts["tweets"][rows])
    for name in ("amazon", "editorials"):
        table(root / f"{name}.parquet", made.texts[name][:100])
    done = leadline(
        "fit", made.fit_config(root / "fit.yaml"), "--out", made.reference, "--json", root / "fit.json"
    )
    assert done.code == 0, done.err
    (root / "fit.out").write_text(done.out, encoding="utf-8")
    return made


def _texts(directory: Path) -> dict[str, list[Rated]]:
    try:
        tables = write_demo_tables(directory)
    except ServiceError as error:
        if os.environ.get("LEADLINE_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"the demo's texts cannot be downloaded: {error}")
    domains = {"amazon": tables.domains["phones"], "editorials": tables.domains["editorials"]}
    paths = {"tweets": tables.splits["train"], **domains, "stream": tables.stream}
    found = {name: columns(path) for name, path in paths.items()}
    rated = {name: list(zip(read["text"], read["label"], strict=True)) for name, read in found.items()}
    return rated | {"movies": rated.pop("stream")[HALF:]}


@dataclass(frozen=True)
class TaskTables:
    """Tables with the outputs of a task model that Leadline does not know, and the head that made the logits."""

    splits: dict[str, Path]
    bare: dict[str, Path]  # without features
    head: Path
    features: NDArray[np.float64]  # (n, FEATURES), of the test rows
    logits: NDArray[np.float64]  # (n, 2), of the test rows
    texts: Sequence[Rated]  # the test rows


@pytest.fixture(scope="session")
def task_tables(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> TaskTables:
    """The tables that a logistic regression on latent semantic features would export."""
    root = tmp_path_factory.mktemp("task")
    rated = {name: bench.texts["tweets"][rows] for name, rows in SMALL.items()}
    words, latent = TfidfVectorizer(), TruncatedSVD(FEATURES, random_state=0)
    latent.fit(words.fit_transform([text for text, _ in rated["train"]]))
    features = {
        name: latent.transform(words.transform([text for text, _ in rows])) for name, rows in rated.items()
    }
    weight, bias = _head(features["train"], rated["train"])
    save_file({"weight": weight, "bias": bias}, root / "head.safetensors")
    logits = {name: rows @ weight.T + bias for name, rows in features.items()}
    return TaskTables(
        splits={
            name: table(
                root / f"{name}.parquet", rows, logits=logits[name].tolist(), features=features[name].tolist()
            )
            for name, rows in rated.items()
        },
        bare={
            name: table(root / f"{name}.jsonl", rows, logits=logits[name].tolist()) for name, rows in rated.items()
        },
        head=root / "head.safetensors",
        features=features["test"],
        logits=logits["test"],
        texts=rated["test"],
    )


def _head(
    features: NDArray[np.floating], rated: Sequence[Rated]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two rows of logits that a binary logistic regression amounts to."""
    model = LogisticRegression(C=100.0).fit(features, [LABELS.index(label) for _, label in rated])
    row, offset = model.coef_ / 2, model.intercept_ / 2
    return np.vstack([-row, row]), np.concatenate([-offset, offset])


@dataclass(frozen=True)
class OnnxTaskModel:
    """Directories of a task model with the outputs `logits` and `features`, and with `logits` alone."""

    both: Path
    logits_only: Path
    narrow: Path  # one logit
    head: Path
    splits: dict[str, Path]
    predicted: list[str]  # what it should say of the test rows


@pytest.fixture(scope="session")
def onnx_task(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> OnnxTaskModel:
    """A transformer with a classification head: the encoder's graph and a linear layer trained on it."""
    root = tmp_path_factory.mktemp("onnx")
    rated = {name: bench.texts["tweets"][rows] for name, rows in SMALL.items()}
    encoder = Encoder.load(bench.encoder)
    mix = np.random.default_rng(0).normal(size=(encoder.dimension, 2 * FEATURES))
    features = {
        name: encoder.encode([text for text, _ in rated[name]]).embedding @ mix for name in ("train", "test")
    }
    weight, bias = _head(features["train"], rated["train"])
    save_file({"weight": weight, "bias": bias}, root / "head.safetensors")
    outputs = {"both": ["logits", "features"], "logits_only": ["logits"]}
    for name, wanted in outputs.items():
        _save_task(root / name, bench.encoder, (mix, weight, bias), wanted)
    _save_task(root / "narrow", bench.encoder, (mix, weight[:1], bias[:1]), ["logits"])
    predicted = (features["test"] @ weight.T + bias).argmax(axis=1)
    return OnnxTaskModel(
        both=root / "both",
        logits_only=root / "logits_only",
        narrow=root / "narrow",
        head=root / "head.safetensors",
        splits={name: table(root / f"{name}.parquet", rows) for name, rows in rated.items()},
        predicted=[LABELS[place] for place in predicted],
    )


def _save_task(
    directory: Path, encoder: Path, layers: tuple[NDArray[np.float64], ...], outputs: list[str]
) -> None:
    model = onnx.load(encoder / "model.onnx")
    graph, (mix, weight, bias) = model.graph, layers
    (embedding,) = (node.name for node in graph.output)
    for name, array in (("task.mix", mix), ("task.weight", weight.T), ("task.bias", bias)):
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
    graph.node.extend(
        [
            helper.make_node("MatMul", [embedding, "task.mix"], ["features"]),
            helper.make_node("MatMul", ["features", "task.weight"], ["task.product"]),
            helper.make_node("Add", ["task.product", "task.bias"], ["logits"]),
        ]
    )
    del graph.output[:]
    widths = {"logits": len(bias), "features": weight.shape[1]}
    graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", widths[name]]) for name in outputs
    )
    directory.mkdir()
    onnx.save(model, directory / "model.onnx")
    shutil.copy(encoder / "tokenizer.json", directory)

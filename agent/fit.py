"""Fitting: labelled tables in, a frozen reference out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from agent.encoder.session import Runtime
from agent.errors import UsageError
from agent.freeze import SOURCE, Fitted, Split, freeze
from agent.head import check_head, read_head, train_head
from agent.labelled import check_classes, feature_width, read_labelled
from agent.reference import EncoderIdentity, TaskIdentity
from agent.task import GivenTask, HeadTask, OnnxTask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from agent.config import FitConfig
    from agent.encoder import Encoder
    from agent.labelled import Labelled
    from agent.reference import Reference
    from agent.task import TaskModel
    from detectors.contract import Head, Matrix


class Progress(Protocol):
    """Told how far the long work of a fit is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` rows of this stage are finished."""


def fit(config: FitConfig, encoder: Encoder, bundle: Path, progress: Progress) -> Reference:
    """Fit everything on the tables of `config`; `bundle` is where the reference will lie, for relative paths.

    Deterministic. UsageError for tables, labels or models that cannot be used, found before the long work starts
    wherever it can be.
    """
    tables = read_tables(config)
    task, head = open_task(config)
    _check_head(config, head, tables["train"].items.features, tables["train"].items.logits)
    embedded = {name: _embed(name, table, encoder, progress) for name, table in tables.items()}
    if task is None:
        head = _train(tables, embedded)
        task = HeadTask(head)
    splits = {name: _split(table, task, embedded[name]) for name, table in tables.items()}
    train = splits["train"].outputs
    _check_head(config, head, train.features, train.logits)
    given = train.features
    features = 0 if given is None else given.shape[1]
    fitted = Fitted(
        source={name: splits.pop(name) for name in SOURCE},
        domains={name.removeprefix(DOMAIN): split for name, split in splits.items()},
        head=head,
        encoder=EncoderIdentity(encoder.name, encoder.sha256, _relative(config.encoder, bundle)),
        task=_task_identity(config, task, features, bundle),
    )
    return freeze(config, fitted, lambda done, total: progress("backtest", done, total))


DOMAIN = "domain "


def read_tables(config: FitConfig) -> dict[str, Labelled]:
    """Every table by name: the source's three, then each reference domain as `domain NAME`; all checked."""
    features = feature_width(config.source.train, config.model)
    paths = {name: getattr(config.source, name) for name in SOURCE}
    paths |= {DOMAIN + name: path for name, path in config.domains.items()}
    tables = {name: read_labelled(path, config.model, features) for name, path in paths.items()}
    check_classes(tables["train"], config.model)
    return tables


def _embed(name: str, table: Labelled, encoder: Encoder, progress: Progress) -> NDArray[np.float32]:
    total = len(table)
    progress(name, 0, total)
    items = table.items
    return encoder.encode(items.texts, items.pairs, on_progress=lambda done: progress(name, done, total)).embedding


def open_task(config: FitConfig) -> tuple[TaskModel | None, Head | None]:
    """The task model and the head that the configuration names; no task model where the head is trained here."""
    model = config.model
    if model.outputs == "head":
        return None, None
    head = None if model.head is None else read_head(model.head, len(model.labels))
    if model.path is None:
        return GivenTask(), head
    runtime = Runtime(config.encoding.threads, config.encoding.device)
    return OnnxTask.load(model.path, len(model.labels), runtime), head


def _train(tables: Mapping[str, Labelled], embedded: Mapping[str, NDArray[np.float32]]) -> Head:
    train, validation = ((embedded[name], tables[name].labels) for name in ("train", "validation"))
    return train_head(train, validation)


def _check_head(config: FitConfig, head: Head | None, features: Matrix | None, logits: Matrix | None) -> None:
    """UsageError if a head from a file is not the one that made the training rows' logits."""
    path = config.model.head
    if path is not None and head is not None and features is not None and logits is not None:
        check_head(head, features, logits, path)


def _split(table: Labelled, task: TaskModel, embedding: NDArray[np.float32]) -> Split:
    outputs = task.outputs(table.items, embedding)
    finite = outputs.finite()
    if not finite.all():
        raise UsageError(f"{table.path}: row {int(finite.argmin()) + 1}: the task model gives NaN or infinity")
    return Split(table, outputs)


def _task_identity(config: FitConfig, task: TaskModel, features: int, bundle: Path) -> TaskIdentity:
    if isinstance(task, OnnxTask) and config.model.path is not None:
        path = _relative(config.model.path, bundle)
        return TaskIdentity("onnx", features, task.sha256, path)
    return TaskIdentity(config.model.outputs, features, kind=config.model.task)


def _relative(path: Path, bundle: Path) -> str:
    """Where `path` is, seen from the bundle, so that the two can move together."""
    return os.path.relpath(path.resolve(), bundle.resolve())

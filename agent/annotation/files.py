"""The directory of a batch: written whole, read by its owner only, and looked at closely when it is read back."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from agent.annotation.batch import SCHEMA, TOKENS, Arrays, Batch, Item
from agent.annotation.formats import json_lines, label_studio, labelling_config, one_line
from agent.errors import ArtefactError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agent.annotation.draw import Made

BATCH, ITEMS, ARRAYS = "batch.json", "items.jsonl", "arrays.safetensors"
LABEL_STUDIO, LABELLING = "label-studio.json", "label-studio.xml"
LABELS = "labels.jsonl"
# What an episode may be called to be a directory; none leads out of the one above it.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SCRATCH = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9_.-]{0,127}-[a-z0-9_]{8}")
_BATCH, _ITEM = TypeAdapter(Batch), TypeAdapter(Item)
Part = TypeVar("Part", Batch, Item)


def directory_of(root: Path, episode: str) -> Path:
    """Where the batch of an episode is, or would be. UsageError for what no episode is called."""
    if _NAME.fullmatch(episode) is None:
        raise UsageError(f"{episode!r} is not the id of an episode: letters, digits, `_`, `.` and `-` only")
    return root / episode


def write(root: Path, made: Made) -> Path:
    """Write the batch beside its place and rename it there; one that is there already stays, with its labels.

    OSError if the disk refuses; then there is none.
    """
    target = directory_of(root, made.batch.episode)
    if not root.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)
    if (target / BATCH).is_file():
        return target
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=root))
    try:
        scratch.chmod(0o700)
        for name, content in contents(made.batch, made.items).items():
            write_private(scratch / name, content)
        write_private(scratch / ARRAYS, save(_columns(made.arrays)))
        write_private(scratch / LABELS, b"")
        scratch.rename(target)
        _sync_directory(root)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def contents(batch: Batch, items: Sequence[Item]) -> dict[str, bytes]:
    """The files that say which items there are, by name.

    In this order a rewrite that stops half way is known to be due again: by the items' texts, then by `texts` of
    the batch.
    """
    pairs = any(item.text_pair is not None for item in items)
    return {
        LABEL_STUDIO: label_studio(batch, items),
        LABELLING: labelling_config(batch, pairs=pairs),
        ITEMS: json_lines(items),
        BATCH: one_line(asdict(batch)) + b"\n",
    }


def rewrite(directory: Path, batch: Batch, items: Sequence[Item]) -> None:
    """Put these items in the place of those written, one file after another, each whole. OSError if it fails."""
    for name, content in contents(batch, items).items():
        beside = directory / f".{name}.new"  # one name: what a crash leaves behind is written over by the next try
        write_private(beside, content)
        beside.rename(directory / name)
    _sync_directory(directory)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read at any moment, whatever the umask, and have it on the disk."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def found(root: Path) -> list[Path]:
    """The directories of batches, by name; empty where nothing was ever written. OSError if it cannot be read."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if _NAME.fullmatch(path.name) and (path / BATCH).is_file())


def leftovers(root: Path, until: float) -> list[Path]:
    """Scratch directories last changed before `until` (epoch seconds): nobody is writing them any more."""
    if not root.is_dir():
        return []
    return [path for path in root.iterdir() if _SCRATCH.fullmatch(path.name) and path.lstat().st_mtime < until]


def read_batch(directory: Path) -> Batch:
    """What holds for all items of a batch. UsageError if there is none; ArtefactError naming what is wrong."""
    path = directory / BATCH
    content = _json(path, _bytes(path))
    if isinstance(content, dict) and content.get("schema") != SCHEMA:
        raise ArtefactError(
            f"{path} has schema version {content.get('schema')!r}, this Leadline reads version {SCHEMA}"
        )
    return _checked(_BATCH, content, str(path))


def read_items(directory: Path, batch: Batch) -> tuple[Item, ...]:
    """Its items, in order. ArtefactError naming the file and the line that does not fit the batch."""
    path = directory / ITEMS
    items = []
    for number, line in enumerate(_bytes(path).splitlines(), start=1):
        where = f"{path}: line {number}"
        item: Item = _checked(_ITEM, _json(where, line), where)
        if not (item.row < batch.sampled and item.stratum < len(batch.strata)):
            raise ArtefactError(f"{where}: its row or stratum does not exist in {BATCH}. {_AGAIN}")
        if batch.task != TOKENS and item.prediction not in batch.labels:
            raise ArtefactError(f"{where}: the prediction is not one of the labels in {BATCH}. {_AGAIN}")
        items.append(item)
    if len(items) != batch.items:
        raise ArtefactError(f"{path} has {len(items)} items, {BATCH} says {batch.items}. {_AGAIN}")
    return tuple(items)


def read_arrays(directory: Path, batch: Batch) -> Arrays:
    """The arrays of the whole sample. ArtefactError if they do not fit the batch."""
    path = directory / ARRAYS
    try:
        columns: dict[str, NDArray[Any]] = load(_bytes(path))
        arrays = Arrays(
            columns["embedding"], columns.get("logits"), columns.get("features"), columns.get("confidence")
        )
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ArtefactError(f"{path} is damaged: {error!r}. {_AGAIN}") from error
    wrong = [
        name
        for name, values in columns.items()
        if values.ndim != _ROWS_AND_COLUMNS or len(values) != batch.sampled
    ]
    if arrays.logits is not None and arrays.logits.shape[1:] != (len(batch.labels),):
        wrong.append("logits")
    if wrong:
        raise ArtefactError(
            f"{path}: {', '.join(sorted(set(wrong)))} has another shape than {BATCH} says. {_AGAIN}"
        )
    return arrays


_ROWS_AND_COLUMNS = 2
_AGAIN = "It was changed or damaged: take a copy that is whole, or remove the directory."


def _columns(arrays: Arrays) -> dict[str, NDArray[np.generic]]:
    return {name: np.ascontiguousarray(values) for name, values in vars(arrays).items() if values is not None}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        if path.name == BATCH:
            raise UsageError(f"{path.parent} holds no annotation batch: it has no {BATCH}") from error
        raise ArtefactError(f"{path} is missing: the batch is not complete. {_AGAIN}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _json(where: object, content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"{where} is not JSON. {_AGAIN}") from error


def _checked(kind: TypeAdapter[Part], content: object, where: str) -> Part:
    """The value, if it has every part. What is wrong is named without its value, which may be a user's text."""
    try:
        return kind.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "the whole"
        raise ArtefactError(f"{where}: `{field}`: {first['msg']}. {_AGAIN}") from error

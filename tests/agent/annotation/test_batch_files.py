"""The directory of a batch: private, whole or absent, and looked at closely when it is read back."""

from __future__ import annotations

import json
import os
import stat
from contextlib import contextmanager
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from agent.annotation import files
from agent.annotation.batch import Believed
from agent.annotation.draw import Made
from agent.annotation.files import (
    directory_of,
    found,
    leftovers,
    read_arrays,
    read_batch,
    read_items,
    rewrite,
    write,
)
from agent.errors import ArtefactError, UsageError
from tests.agent.annotation.annotation_bench import EPISODE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    "batch.json",
    "items.jsonl",
    "label-studio.json",
    "label-studio.xml",
    "arrays.safetensors",
    "labels.jsonl",
}


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_batch_comes_back_as_it_was_written(made: Made, written: Path) -> None:
    """Facts, items and arrays, exactly."""
    assert {path.name for path in written.iterdir()} == FILES
    batch = read_batch(written)
    assert batch == made.batch
    assert read_items(written, batch) == made.items
    arrays = read_arrays(written, batch)
    np.testing.assert_array_equal(arrays.embedding, made.arrays.embedding)
    np.testing.assert_array_equal(arrays.logits, made.arrays.logits)
    assert (arrays.features, arrays.confidence) == (None, None)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_only_the_owner_can_read_a_batch(made: Made, batches: Path, mask: int) -> None:
    """Directories have mode 0700 and files 0600, whatever the umask, also after they were rewritten."""
    batches.parent.mkdir(exist_ok=True)
    with _umask(mask):
        directory = write(batches, made)
        rewrite(directory, made.batch, made.items)
    assert (_mode(batches), _mode(directory)) == (0o700, 0o700)
    assert {_mode(path) for path in directory.iterdir()} == {0o600}


def test_a_directory_of_the_users_own_keeps_its_mode(made: Made, batches: Path) -> None:
    """What was there already is not changed; the batch in it is private all the same."""
    batches.mkdir(mode=0o755)
    batches.chmod(0o755)
    assert _mode(write(batches, made)) == 0o700
    assert _mode(batches) == 0o755


def test_a_write_that_fails_leaves_nothing(made: Made, batches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a batch is never seen: it is written beside its place and renamed there."""
    real, calls = files.write_private, []

    def full(path: Path, content: bytes) -> None:
        calls.append(path.name)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(files, "write_private", full)
    with pytest.raises(OSError, match="No space"):
        write(batches, made)
    assert list(batches.iterdir()) == []
    monkeypatch.undo()
    assert read_batch(write(batches, made)) == made.batch


def test_a_batch_that_is_there_stays_with_its_labels(made: Made, written: Path, batches: Path) -> None:
    """An episode that is decided again after a crash does not undo what people did meanwhile."""
    (written / "labels.jsonl").write_text('{"id": "item-1", "label": "positive", "time": 1}\n', encoding="utf-8")
    changed = replace(made.batch, created=2.0)
    assert write(batches, Made(changed, made.items, made.arrays)) == written
    assert read_batch(written) == made.batch
    assert (written / "labels.jsonl").stat().st_size


def test_what_a_crash_left_is_known_from_batches(made: Made, written: Path, batches: Path) -> None:
    """Scratch directories are no batches; they are listed once they are old, and nothing else is."""
    scratch = batches / f".{EPISODE}-abcd_123"
    scratch.mkdir()
    (batches / ".git").mkdir()
    (batches / "notes").mkdir()
    changed = scratch.stat().st_mtime
    assert found(batches) == [written]
    assert leftovers(batches, changed + 1) == [scratch]
    assert leftovers(batches, changed - 1) == []
    assert (found(batches / "none"), leftovers(batches / "none", 9e9)) == ([], [])
    assert made.batch.episode == EPISODE


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", ".hidden", "a\0b", "ü", "a" * 129, "a\n"])
def test_no_name_leads_out_of_the_directory(batches: Path, name: str) -> None:
    """An id that is no plain name is refused: it may come from a request."""
    with pytest.raises(UsageError, match="is not the id of an episode"):
        directory_of(batches, name)


def test_hostile_names_and_unknown_numbers_come_back(made: Made, batches: Path) -> None:
    """Quotes, line ends of every kind, HTML and NaN pass; half a surrogate pair, which no file holds, is `?`."""
    name = "\"'<b>\n\r\x85\u2028\u2029\x00é"
    items = tuple(replace(item, slice=name, text=name, depth=float("nan")) for item in made.items)
    batch = replace(made.batch, slice=name, estimate=Believed(reason="nothing"))
    directory = write(batches, Made(batch, items, made.arrays))
    read = read_batch(directory)
    assert read.slice == name
    assert isnan(read.estimate.drop.high)
    assert {item.text for item in read_items(directory, read)} == {name}
    assert isnan(read_items(directory, read)[0].depth)
    assert len((directory / "items.jsonl").read_text(encoding="utf-8").splitlines()) == len(items)
    lone = tuple(replace(item, text="\ud800") for item in items)
    rewrite(directory, batch, lone)
    assert {item.text for item in read_items(directory, read)} == {"?"}


def _edit(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def _edit_item(directory: Path, **changes: object) -> None:
    path = directory / "items.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines()
    changed = {key: value for key, value in (json.loads(first) | changes).items() if value != "away"}
    path.write_text("\n".join([json.dumps(changed), *others]) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema": 2}, "batch.json has schema version 2, this Leadline reads version 1"),
        ({"schema": None}, "has schema version None"),
        ({"labels": "positive"}, "batch.json: `labels`"),
        ({"window": {"start": 0}}, "batch.json: `window.end`"),
        ({"strata": [{"items": -1, "drawn": 0}]}, "batch.json: `strata.0.items`"),
        ({"precision": None}, "batch.json: `precision`"),
        ({"estimate": {"drop": {"low": "much"}}}, "`estimate.drop.low`"),
        ({"sampled": "many"}, "batch.json: `sampled`"),
    ],
)
def test_a_changed_batch_is_refused_by_name(written: Path, changes: dict[str, object], complaint: str) -> None:
    """The error names the file and the field."""
    _edit(written / "batch.json", **changes)
    with pytest.raises(ArtefactError) as raised:
        read_batch(written)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"row": 300}, "items.jsonl: line 1: its row or stratum does not exist"),
        ({"stratum": 6}, "items.jsonl: line 1: its row or stratum does not exist"),
        ({"inclusion_probability": 0}, "line 1: `inclusion_probability`"),
        ({"inclusion_probability": 1.5}, "line 1: `inclusion_probability`"),
        ({"prediction": "neutral"}, "line 1: the prediction is not one of the labels"),
        ({"id": "away"}, "line 1: `id`"),
        ({"probabilities": {"positive": "secret text"}}, "line 1: `probabilities.positive`"),
    ],
)
def test_a_changed_item_is_refused_by_line(written: Path, changes: dict[str, object], complaint: str) -> None:
    """The error names file, line and field, and does not show what was there: it may be a user's text."""
    _edit_item(written, **changes)
    with pytest.raises(ArtefactError) as raised:
        read_items(written, read_batch(written))
    assert complaint in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b"null"])
@pytest.mark.parametrize("name", ["batch.json", "items.jsonl", "arrays.safetensors"])
def test_a_damaged_file_is_refused_by_name(written: Path, name: str, content: bytes) -> None:
    """Whatever is in it, the error names the file."""
    batch = read_batch(written)
    (written / name).write_bytes(content)
    with pytest.raises(ArtefactError, match=name):
        _ = read_batch(written), read_items(written, batch), read_arrays(written, batch)


@pytest.mark.parametrize("name", ["items.jsonl", "arrays.safetensors"])
def test_a_missing_file_is_refused_by_name(written: Path, name: str) -> None:
    """A batch without its items or arrays is not complete; a directory without `batch.json` is none."""
    batch = read_batch(written)
    (written / name).unlink()
    with pytest.raises(ArtefactError, match=f"{name} is missing"):
        _ = read_items(written, batch), read_arrays(written, batch)
    (written / "batch.json").unlink()
    with pytest.raises(UsageError, match="holds no annotation batch"):
        read_batch(written)


@pytest.mark.parametrize(
    "arrays",
    [
        {"embedding": np.zeros((299, 5), np.float16)},
        {"embedding": np.zeros((300, 5), np.float16), "logits": np.zeros((300, 3), np.float32)},
        {"embedding": np.zeros(300, np.float16)},
        {"logits": np.zeros((300, 2), np.float32)},
    ],
)
def test_arrays_of_another_shape_are_refused(written: Path, arrays: dict[str, np.ndarray]) -> None:
    """Every array has a row for each item of the window's sample, logits a column for each label."""
    save_file(arrays, written / "arrays.safetensors")
    with pytest.raises(ArtefactError, match=r"arrays\.safetensors"):
        read_arrays(written, read_batch(written))

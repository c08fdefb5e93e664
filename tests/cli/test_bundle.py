"""A reference is verified before anything in it is parsed, and what is wrong with it is said in plain words."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from agent import bundle
from agent.errors import ArtefactError
from tests.cli.workbench import leadline, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.workbench import Bench, Outcome

FILES = (
    "detectors.safetensors",
    "domains.json",
    "estimator.safetensors",
    "head.safetensors",
    "source.safetensors",
    "taught.safetensors",
    "validation_scores.safetensors",
    "words.json",
)


@pytest.fixture
def copy(bench: Bench, tmp_path: Path) -> Path:
    """A reference that a test may spoil."""
    shutil.copytree(bench.reference, tmp_path / "reference")
    return tmp_path / "reference"


def _score(bench: Bench, directory: Path) -> Outcome:
    texts = table(directory.parent / "texts.csv", bench.texts["tweets"][600:603])
    out = directory.parent / "out.csv"
    out.unlink(missing_ok=True)
    done = leadline("score", directory, texts, "--out", out, "--encoder", bench.encoder)
    assert not out.exists() or done.code == 0
    return done


def _unparsed(bench: Bench, directory: Path) -> Outcome:
    """Score, and fail the test if any file but the manifest is parsed."""
    with mock.patch.object(bundle, "load_file", side_effect=AssertionError("parsed before it was verified")):
        return _score(bench, directory)


def _edit(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def _sign(directory: Path) -> None:
    """Make hashes and id right again, as someone who knows how would."""

    def sign(manifest: dict[str, Any]) -> None:
        names = [path.name for path in directory.iterdir() if path.name != "manifest.json"]
        manifest["files"] = {
            name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in sorted(names)
        }
        manifest["id"] = bundle._identity(manifest)

    _edit(directory, sign)


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_byte_is_found(name: str, bench: Bench, copy: Path) -> None:
    """One byte changed in any file ends with 3 and names the file, before anything is parsed."""
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    done = _unparsed(bench, copy)
    assert (done.code, done.complaints) == (
        3,
        [f"reference {copy} was changed or damaged: {name} does not match its sha256. Get it again."],
    )


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(name: str, bench: Bench, copy: Path) -> None:
    """A file that is gone ends with 3 and names it."""
    (copy / name).unlink()
    done = _unparsed(bench, copy)
    assert (done.code, done.complaints) == (
        3,
        [f"reference {copy} is incomplete: {name} is missing. Get it again."],
    )


def test_a_truncated_file_is_found(bench: Bench, copy: Path) -> None:
    """A file of which only the beginning arrived ends with 3 and is named."""
    content = (copy / "detectors.safetensors").read_bytes()
    (copy / "detectors.safetensors").write_bytes(content[: len(content) // 2])
    done = _unparsed(bench, copy)
    assert done.code == 3
    assert "detectors.safetensors does not match its sha256" in done.err


def _means_the_same(one: bytes, other: bytes) -> bool:
    """Whether both are the same JSON: white space, or the last digit of a number that rounds to the same one."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_every_byte_of_the_manifest_counts(bench: Bench, copy: Path) -> None:
    """A flipped bit anywhere in the manifest's facts never loads, and never ends in a traceback."""
    whole = (copy / "manifest.json").read_bytes()
    for place in range(0, len(whole), 97):
        content = bytearray(whole)
        content[place] ^= 1
        (copy / "manifest.json").write_bytes(content)
        done = _score(bench, copy)
        created = whole.index(b'"created"')
        harmless = created <= place < whole.index(b"\n", created) or _means_the_same(content, whole)
        assert done.code in ({0, 2, 3} if harmless else {2, 3}), (place, whole[place - 20 : place + 20])
    (copy / "manifest.json").write_bytes(whole)
    assert _score(bench, copy).code == 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"primary": "msp"}, "reference {} was changed: manifest.json does not match the id in it. Get it again."),
        ({"labels": 3}, "reference {} was changed: manifest.json does not match the id in it. Get it again."),
        (
            {"schema": 2},
            "{} has schema version 2, this Leadline reads version 3: run `leadline fit` again with this version",
        ),
        ({"encoder": "none"}, "reference {} is not complete: "),
        ({"files": []}, "{}/manifest.json is not a manifest Leadline wrote: "),
    ],
)
def test_an_edited_manifest_is_refused(
    change: dict[str, object], complaint: str, bench: Bench, copy: Path
) -> None:
    """An edited manifest, or one of another schema version, ends with 3 and says what to do."""
    _edit(copy, lambda manifest: manifest.update(change))
    done = _unparsed(bench, copy)
    assert done.code == 3
    (line,) = done.complaints
    assert line.startswith(complaint.format(copy))


def test_an_extra_file_is_refused(bench: Bench, copy: Path) -> None:
    """A file that the manifest does not list, such as a pickle called .npy, ends with 3 and is never opened."""
    (copy / "bank.npy").write_bytes(pickle.dumps(_Trap(copy.parent / "sprung")))
    done = _unparsed(bench, copy)
    assert done.code == 3
    assert "holds bank.npy, which its manifest does not list" in done.err
    assert not (copy.parent / "sprung").exists()


class _Trap:
    """Leaves a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self._path,)


@pytest.mark.parametrize("name", [name for name in FILES if name != bundle.TAUGHT])
def test_a_pickle_in_any_files_place_is_not_loaded(name: str, bench: Bench, copy: Path) -> None:
    """Even with every hash made right, a pickle in the place of a file is refused with 3 and never executed."""
    (copy / name).write_bytes(pickle.dumps(_Trap(copy.parent / "sprung")))
    _sign(copy)
    done = _score(bench, copy)
    assert (done.code, done.complaints[0].startswith(f"reference {copy} is not complete: ")) == (3, True)
    assert not (copy.parent / "sprung").exists()


def test_a_pickle_among_the_taught_rows_is_not_loaded(bench: Bench, copy: Path) -> None:
    """What an estimator learnt from is not read to score; asked for, a pickle there is refused, not executed."""
    (copy / bundle.TAUGHT).write_bytes(pickle.dumps(_Trap(copy.parent / "sprung")))
    _sign(copy)
    assert _score(bench, copy).code == 0
    with pytest.raises(ArtefactError, match="is not complete"):
        bundle.load_taught(copy)
    assert not (copy.parent / "sprung").exists()


@pytest.mark.parametrize(
    "change", [{"primary": "nonsense"}, {"detectors": ["knn"]}, {"detectors": ["knn", "new"]}]
)
def test_parts_that_do_not_fit_together_are_refused(change: dict[str, object], bench: Bench, copy: Path) -> None:
    """A signed manifest that names detectors the bundle does not hold ends with 3."""
    _edit(copy, lambda manifest: manifest.update(change))
    _sign(copy)
    done = _score(bench, copy)
    assert done.code == 3
    assert "is not complete" in done.err


@pytest.mark.parametrize("name", ["../outside.json", "/etc/hostname", "words.json/../../outside.json"])
def test_a_manifest_cannot_point_outside(name: str, bench: Bench, copy: Path) -> None:
    """A file outside the directory is no part of it, even with its right hash: 3."""
    outside = copy.parent / "outside.json"
    outside.write_text("[]", encoding="utf-8")
    _edit(
        copy,
        lambda manifest: manifest["files"].update({name: hashlib.sha256(outside.read_bytes()).hexdigest()}),
    )
    done = _unparsed(bench, copy)
    assert (done.code, done.complaints) == (
        3,
        [f"reference {copy} is incomplete: {name} is missing. Get it again."],
    )


def test_what_is_no_reference_at_all(bench: Bench, tmp_path: Path) -> None:
    """A directory of other files, a file, nothing, and an encoder are told apart from a reference with 2."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").touch()
    for directory in (foreign, foreign / "notes.txt", tmp_path / "absent"):
        done = _score(bench, directory)
        assert (done.code, done.complaints) == (2, [f"{directory} is not a reference: it has no manifest.json"])
    done = _score(bench, bench.encoder)
    assert (done.code, done.complaints) == (
        2,
        [f"{bench.encoder} is not a reference: its manifest.json is that of something else"],
    )


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", "[" * 100_000, '{"files": {"a": 1}}', "\udcff"])
def test_a_manifest_of_something_else(content: str, bench: Bench, tmp_path: Path) -> None:
    """A manifest.json that is no manifest of ours ends with 3 and is named."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "manifest.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    done = _score(bench, tmp_path / "app")
    assert done.code == 3
    assert done.complaints[0].startswith(f"{tmp_path}/app/manifest.json is not a manifest Leadline wrote")


def test_nobodys_files_are_written_over(bench: Bench, tmp_path: Path) -> None:
    """`fit --out` refuses other directories, even with a manifest, and encoders, before it does any work."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "manifest.json").write_text('{"name": "somebody\'s"}', encoding="utf-8")
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    shutil.copy(bench.encoder / "manifest.json", encoder)
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "one.jpg").touch()
    for place in (app, encoder, photos, photos / "one.jpg"):
        before = sorted(tmp_path.rglob("*"))
        done = leadline("fit", bench.root / "fit.yaml", "--out", place)
        assert (done.code, done.complaints) == (
            2,
            [f"{place} already exists and is not a reference: choose another name"],
        )
        assert "train" not in done.out
        assert sorted(tmp_path.rglob("*")) == before

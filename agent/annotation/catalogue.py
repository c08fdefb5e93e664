"""Which batches there are: of each only what holds for all its items, read once. Years of them cost little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.annotation.files import BATCH, found, read_batch
from agent.errors import LeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from pathlib import Path

    from agent.annotation.batch import Batch

# What changes when a file does; nothing where there is none.
Mark = tuple[int, ...]


class Catalogue:
    """The batches below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[Path, tuple[Mark, Batch]] = {}

    def look(self, complain: Callable[[Path, Exception], None]) -> dict[Path, Batch]:
        """Those there are now, by directory; the same object while its file is the same.

        `complain` is told of those that cannot be read, each time. OSError if the directory cannot be.
        """
        now = {}
        for path in found(self._root):
            try:
                mark, known = mark_of(path / BATCH), self._known.get(path)
                now[path] = known if known is not None and known[0] == mark else (mark, read_batch(path))
            except (LeadlineError, OSError) as error:
                complain(path, error)
        self._known = now
        return {path: batch for path, (_, batch) in now.items()}


def newest(batches: Mapping[Path, Batch], most: int, asking: Container[str]) -> list[Path]:
    """So many, and those of the episodes that are still `asking` for labels, the newest first."""
    order = sorted(batches, key=lambda path: (-batches[path].created, batches[path].episode))
    return [path for place, path in enumerate(order) if place < most or batches[path].episode in asking]


def mark_of(path: Path) -> Mark:
    """The mark of this file now. OSError if that cannot be told."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return ()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns

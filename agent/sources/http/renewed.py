"""Mounted secrets, made use of anew when they have changed, as Kubernetes changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agent.sources.http.answers import Event

Version = tuple[int, ...]
Made = TypeVar("Made")


class Renewed(Generic[Made]):
    """What `make` makes of files, made again when one of them has changed. UsageError at the start.

    Later, files that cannot be used leave it as it was; `saw` is told the event, and the log `what` it is.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        make: Callable[[], Made],
        event: Event,
        saw: Callable[[Event], None],
    ) -> None:
        self._what = what
        self._paths = paths
        self._make = make
        self._event = event
        self._saw = saw
        self._versions = self._now()
        self._made = make()

    def current(self) -> Made:
        """Of the files as they are now, or as they were when they could be used last."""
        found = self._now()
        if found != self._versions:
            self._versions = found
            try:
                self._made = self._make()
            except UsageError as error:
                self._saw(self._event)
                log = structlog.get_logger()
                log.warning(self._event.value, problem=str(error), kept=f"the {self._what} before")
        return self._made

    def _now(self) -> list[Version]:
        return [_version(path) for path in self._paths]


def _version(path: Path) -> Version:
    """What changes when the file does, or the link to it; nothing for a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size

"""Dead letters in a JSON Lines file that only its owner can read.

The file holds what users sent, byte by byte, and nothing of it is shown anywhere else.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from agent.errors import ServiceError
from exporters.dead_letters.facts import arrival_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from agent.messages import DeadLetter

OWNER_ONLY = 0o600
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class DeadLetterFile:
    """One line a letter, appended. Once it is over `most_bytes`, the file moves to `<name>.1`, over the last one.

    It is opened anew for each delivery, so that it may be moved or deleted while the agent runs. A delivery is
    never split between two files. Each agent needs a file of its own. ServiceError: it cannot be opened.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        with self._told():
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(self._open())

    def deliver(self, letters: Sequence[DeadLetter]) -> None:
        """Append the letters, all or none; returns once they are on the disk. ServiceError otherwise."""
        if not letters:
            return
        with self._told():
            self._make_room()
            file = self._open()
            try:
                _append(file, map(_line, letters))
            finally:
                os.close(file)

    def close(self) -> None:
        """Nothing is open between deliveries."""

    def _open(self) -> int:
        new = not self._path.exists()
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
        try:
            _claim(file)
            if new:
                self._sync_directory()
        except BaseException:
            os.close(file)
            raise
        return file

    def _make_room(self) -> None:
        """Move a file that is too large aside, over the one that was moved there last."""
        if not self._path.exists() or self._path.stat().st_size <= self._most_bytes:
            return
        aside = self._path.with_name(f"{self._path.name}.1")
        if aside.exists():
            structlog.get_logger().warning(
                "dead_letters_dropped", file=str(aside), bytes=aside.stat().st_size, most_bytes=self._most_bytes
            )
        self._path.replace(aside)
        self._sync_directory()

    def _sync_directory(self) -> None:
        """Without it, a power cut may take the name of a file whose content is safe."""
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the system refuses, with what to do about it."""
        try:
            yield
        except OSError as error:
            raise ServiceError(
                f"dead letters cannot be kept in {self._path}: {error.strerror}. {_advice(error.errno)}, or set "
                "`dead_letters.file` to another path."
            ) from error


def _claim(file: int) -> None:
    """Only its owner may read it, whoever made it."""
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if stat.S_IMODE(mode) != OWNER_ONLY:
        os.fchmod(file, OWNER_ONLY)


def _append(file: int, lines: Iterable[bytes]) -> None:
    """All the lines, on the disk; or the file as it was, and the error."""
    size = os.fstat(file).st_size
    try:
        if size and os.pread(file, 1, size - 1) != b"\n":
            _write(file, b"\n")  # a crash cut the last line short: it must not spoil the next one too
        for line in lines:
            _write(file, line)
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def _write(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _line(letter: DeadLetter) -> bytes:
    message = letter.message
    told = {
        "origin": message.origin,
        "reason": letter.reason,
        "items": letter.items,
        "time": arrival_of(message),
        "key": _text(message.key),
        "headers": [[name, _text(value)] for name, value in message.headers],
        "body": _text(message.body),
    }
    return json.dumps(told).encode() + b"\n"


def _text(content: bytes | None) -> str | None:
    """Base64, which keeps every byte."""
    return None if content is None else b64encode(content).decode()


def _advice(number: int | None) -> str:
    if number in FULL:
        return "Make room for them there"
    if number in FORBIDDEN:
        return "Let the agent write there"
    return "Mend that"

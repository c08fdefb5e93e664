"""Lines of JSON from a file or standard input, with a bound on how much of one line is held."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

from agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PIECE = 1 << 16
# How long an idle standard input is waited for before the caller gets a turn, in seconds.
PATIENCE = 0.2


def file_lines(path: Path, most: int) -> Iterator[bytes]:
    """The lines of a file, one longer than `most` bytes cut to `most` + 1. UsageError if it cannot be read."""
    try:
        with path.open("rb") as stream:
            for line in bounded(iter(lambda: stream.read(PIECE), b""), most):
                if line is not None:
                    yield line
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def descriptor_lines(descriptor: int, most: int) -> Iterator[bytes | None]:
    """The lines that arrive on a descriptor until it is closed; None whenever nothing came for a moment."""
    return bounded(_arrivals(descriptor), most)


def _arrivals(descriptor: int) -> Iterator[bytes | None]:
    while True:
        readable, _, _ = select.select([descriptor], [], [], PATIENCE)
        if not readable:
            yield None
            continue
        piece = os.read(descriptor, PIECE)
        if not piece:
            return
        yield piece


def bounded(pieces: Iterable[bytes | None], most: int) -> Iterator[bytes | None]:
    r"""Split pieces into lines, never holding more than `most` bytes and one piece; None is passed on.

    >>> list(bounded([b"ab", b"c\nlong", b"line", b"\nend"], most=5))
    [b'abc', b'longli', b'end']
    """
    held, cut = b"", False
    for piece in pieces:
        if piece is None:
            yield None
            continue
        *ended, rest = piece.split(b"\n")
        for line in ended:
            yield (held if cut else held + line)[: most + 1]
            held, cut = b"", False
        if not cut:
            held += rest
            if len(held) > most:
                held, cut = held[: most + 1], True
    if held:
        yield held[: most + 1]

"""Compressed bodies, unpacked piece by piece and never further than allowed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

from agent.sources.http.answers import BROKEN, UNKNOWN_ENCODING, RefusedError, too_large

if TYPE_CHECKING:
    from collections.abc import Iterator

# The most that is unpacked at a time: what a bomb costs beyond what is allowed.
STEP = 1 << 16
# Some writers of gzip make a member of each 64 KiB; thousands of tiny ones only cost time.
MOST_MEMBERS = 1024
GZIP, ZLIB, RAW = 31, 15, -15


class Unpack(Protocol):
    """Gives the content of a body."""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What can be given once this piece has come. RefusedError if it is broken or too much."""

    def end(self) -> None:
        """Nothing follows. RefusedError if something should."""


class Plain:
    """A body that is not compressed."""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The piece."""
        yield piece

    def end(self) -> None:
        """It may end anywhere."""


class Deflated:
    """A body of gzip members, or one deflate stream, with or without the zlib header that some senders forget.

    What follows its end is an error: it cannot be told from damage.
    """

    def __init__(self, most: int, *, gzip: bool) -> None:
        self._most = most
        self._gzip = gzip
        self._start = b""
        self._stream = zlib.decompressobj(GZIP) if gzip else None
        self._members = 1
        self._given = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What this piece unpacks to, at most `STEP` bytes at a time."""
        if self._stream is None:
            self._start += piece
            if len(self._start) < 2:  # noqa: PLR2004 - the header has two bytes
                return
            piece = self._start
            self._stream = zlib.decompressobj(ZLIB if _has_header(piece) else RAW)
        unpacked = STEP
        while piece or unpacked == STEP:
            content, piece = self._step(piece)
            unpacked = len(content)
            self._given += unpacked
            if self._given > self._most:
                raise RefusedError(too_large(self._most, "most_decompressed"))
            if content:
                yield content

    def end(self) -> None:
        """A stream that has not ended was cut short."""
        if self._stream is None or not self._stream.eof:
            raise RefusedError(BROKEN)

    def _step(self, packed: bytes) -> tuple[bytes, bytes]:
        """The next content, and what is still packed."""
        if self._stream is None or self._stream.eof:
            if not packed:
                return b"", b""
            if not self._gzip or self._members == MOST_MEMBERS:
                raise RefusedError(BROKEN)
            self._members += 1
            self._stream = zlib.decompressobj(GZIP)
        try:
            content = self._stream.decompress(packed, STEP)
        except zlib.error as error:
            raise RefusedError(BROKEN) from error
        return content, self._stream.unused_data or self._stream.unconsumed_tail


def _has_header(start: bytes) -> bool:
    return start[0] & 0x0F == zlib.DEFLATED and int.from_bytes(start[:2], "big") % 31 == 0


def unpacker(encoding: str, most: int) -> Unpack:
    """What unpacks this Content-Encoding to at most so many bytes. RefusedError for one we do not know."""
    coding = encoding.strip().lower()
    if coding in {"", "identity"}:
        return Plain()
    if coding in {"gzip", "x-gzip", "deflate"}:
        return Deflated(most, gzip=coding != "deflate")
    raise RefusedError(UNKNOWN_ENCODING)

"""Makes docs/status.png, the status page as Chromium shows it: `python -m tests.exporters.status_picture`."""

from __future__ import annotations

import struct
import tempfile
import zlib
from pathlib import Path

from exporters.server import serving
from exporters.status.batches import Shown
from tests.exporters.browser import Chromium
from tests.exporters.plausible import NOW, drifted
from tests.services import program

PICTURE = Path(__file__).parents[2] / "docs" / "status.png"
# The answer, the slices and the drawings of the worst of them.
WIDTH, HEIGHT = 1200, 1107


def packed(picture: bytes) -> bytes:
    """The same PNG, eight bits a channel, without filters: flat areas then take next to nothing."""
    chunks, place = [], 8
    while place < len(picture):
        (length,) = struct.unpack(">I", picture[place : place + 4])
        chunks.append((picture[place + 4 : place + 8], picture[place + 8 : place + 8 + length]))
        place += 12 + length
    head = next(data for kind, data in chunks if kind == b"IHDR")
    width, _, _, colours = struct.unpack(">IIBB", head[:10])
    rows = unfiltered(
        zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT")), width, {2: 3, 6: 4}[colours]
    )
    plain = b"".join(b"\0" + row for row in rows)
    kept = ((b"IHDR", head), (b"IDAT", zlib.compress(plain, 9)), (b"IEND", b""))
    return picture[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in kept
    )


def unfiltered(pixels: bytes, width: int, channels: int) -> list[bytes]:
    """The rows of a PNG as they are shown (PNG specification, 9.2)."""
    length = width * channels
    above, rows = bytes(length), []
    for start in range(0, len(pixels), length + 1):
        kind, row = pixels[start], bytearray(pixels[start + 1 : start + 1 + length])
        for place in range(length):
            left = row[place - channels] if place >= channels else 0
            corner = above[place - channels] if place >= channels else 0
            row[place] = (row[place] + _guess(kind, left, above[place], corner)) & 255
        above = bytes(row)
        rows.append(above)
    return rows


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 4:
        guess = left + above - corner
        return min((left, above, corner), key=lambda each: abs(guess - each))
    return (0, left, above, (left + above) // 2)[kind]


def take() -> bytes:
    """The picture of a drifted agent's page."""
    report = drifted()
    with (
        tempfile.TemporaryDirectory() as profile,
        serving(lambda: report, "127.0.0.1", 0, clock=lambda: NOW, shown=Shown()) as address,
        Chromium(program("chromium", "chromium"), Path(profile)) as browser,
        browser.page(WIDTH) as page,
    ):
        page.call(
            "Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False
        )
        page.open(f"{address.url}/")
        return packed(page.picture(whole=False))


if __name__ == "__main__":
    PICTURE.write_bytes(take())

"""Lines from files and pipes: whole, bounded, and never waiting for long."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import UsageError
from agent.sources import lines
from agent.sources.lines import bounded, descriptor_lines, file_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """A pipe's reading and writing end, and no patience with silence."""
    monkeypatch.setattr(lines, "PATIENCE", 0.0)
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


@given(
    st.lists(st.binary(max_size=6).map(lambda piece: piece.replace(b"\x00", b"\n")) | st.none()), st.integers(0, 9)
)
def test_pieces_make_the_same_lines_however_they_are_cut(pieces: list[bytes | None], most: int) -> None:
    """Lines are those of the whole content, long ones cut to one byte over the limit, and silence is passed on."""
    given_lines = [line for line in bounded(pieces, most) if line is not None]
    content = b"".join(piece for piece in pieces if piece is not None)
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert given_lines == [line[: most + 1] for line in expected]
    assert list(bounded(pieces, most)).count(None) == pieces.count(None)


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    """A gigabyte without a newline is held as its first bytes only."""
    piece = bytes(1 << 20)
    assert list(bounded((piece for _ in range(1024)), most=10)) == [bytes(11)]


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_the_last_line_of_a_file_needs_no_newline(tmp_path: Path, ending: bytes) -> None:
    """With and without one, the lines are the same; an empty line in between is a line."""
    (tmp_path / "a.jsonl").write_bytes(b"one\n\nthree" + ending)
    assert list(file_lines(tmp_path / "a.jsonl", 100)) == [b"one", b"", b"three"]


def test_lines_longer_than_a_piece_are_whole(tmp_path: Path) -> None:
    """Reading in pieces does not show in the lines."""
    rows = [bytes([65 + row]) * (lines.PIECE + row) for row in range(4)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(rows))
    assert list(file_lines(tmp_path / "a.jsonl", 1 << 20)) == rows


def test_a_file_that_is_gone_is_a_plain_error(tmp_path: Path) -> None:
    """Removed between the start and the first read: the message names it."""
    with pytest.raises(UsageError, match=r"gone\.jsonl: cannot be read: "):
        list(file_lines(tmp_path / "gone.jsonl", 100))


def test_a_pipe_gives_lines_as_they_arrive(pipe: tuple[int, int]) -> None:
    """A line comes once it is whole, silence as None, and the rest when the writer closes."""
    reading, writing = pipe
    arriving = descriptor_lines(reading, 100)
    assert next(arriving) is None
    os.write(writing, b"first\nsec")
    assert next(arriving) == b"first"
    assert next(arriving) is None
    os.write(writing, b"ond\nthird\nlast")
    assert [next(arriving), next(arriving), next(arriving)] == [b"second", b"third", None]
    os.close(writing)
    assert list(arriving) == [b"last"]


def test_a_closed_pipe_has_no_lines(pipe: tuple[int, int]) -> None:
    """Standard input from nowhere ends at once."""
    reading, writing = pipe
    os.close(writing)
    assert list(descriptor_lines(reading, 100)) == []

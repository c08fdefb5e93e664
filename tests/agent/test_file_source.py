"""The file source: one record whatever the format, from any position, at any rate."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from agent.duplicates import Seen
from agent.errors import UsageError
from agent.intake import Intake
from agent.memory import Memory
from agent.pairing import Pairing
from agent.payloads.formats import parts_of
from agent.reasons import Reason
from agent.records import Expected, Record
from agent.slices import Slices
from agent.source_config import FileSourceConfig
from agent.sources import lines
from agent.sources.file import STDIN, FileSource, Timing, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from agent.batch import Batch

NOW = 1_787_306_400.0
EXPECTED = Expected("sentiment", frozenset({"negative", "positive"}), logits=2)
ROWS = [
    {
        "id": f"{row:03}",
        "text": f'film {row}, "quoted"\nsecond line; NA',
        "label": ("negative", None)[row % 2],
        "logits": [row / 4, -1.5],
        "timestamp": f"2026-08-21T09:{row:02}:00Z",
        "slice": ("null", "größe 🐟", None)[row % 3],
        "probabilities": {"positive": 0.75},
        "extra": row,
    }
    for row in range(20)
]
FORMATS = ("jsonl", "csv", "parquet")


class Clock:
    """Seconds that only waiting moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        """Sleep, at once."""
        self.now += seconds

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self.now

    def epoch(self) -> float:
        """The time of day."""
        return NOW + self.now


def source_of(path: Path, size: int = 7, clock: Clock | None = None, **options: Any) -> FileSource:  # noqa: ANN401
    """A source with a clock that stands still unless it is waited for."""
    clock = clock or Clock()
    timing = Timing(clock.wait, clock.monotonic, clock.epoch)
    config = FileSourceConfig(path=path, **options)
    memory = Memory(Slices(1), Pairing(config.wait, config.waiting), Seen(config.remember))
    intake = Intake(parts_of(config, ("negative", "positive")), EXPECTED, memory, anew=config.loop)
    return FileSource(config, intake, size, timing)


def drained(source: FileSource) -> list[Batch]:
    """Every batch up to the one that says it is the last."""
    batches = []
    for _ in range(1000):
        batches.append(source.read())
        if batches[-1].ended:
            return batches
    pytest.fail("the source does not end")


def records_in(batches: Sequence[Batch]) -> list[Record]:
    """All records in order."""
    return [record for batch in batches for record in batch.records]


def csv_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """The rows with lists and mappings as JSON text."""
    flat = [
        {key: json.dumps(cell) if isinstance(cell, list | dict) else cell for key, cell in row.items()}
        for row in rows
    ]
    return pa.Table.from_pylist(flat)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows in a format; the timestamp is called `time` in native JSON."""

    def write(suffix: str, rows: Sequence[dict[str, Any]] = ROWS) -> Path:
        path = tmp_path / f"stream.{suffix}"
        if suffix == "csv":
            csv.write_csv(csv_of(rows), path)
        elif suffix == "parquet":
            parquet.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=6)
        else:
            native = [{("time" if key == "timestamp" else key): cell for key, cell in row.items()} for row in rows]
            path.write_text("".join(f"{json.dumps(row)}\n" for row in native), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_records(written: Callable[..., Path], suffix: str) -> None:
    """The same content is the same records, in the same order, none rejected."""
    batches = drained(source_of(written(suffix)))
    assert records_in(batches) == [
        Record(
            id=f"{row:03}",
            text=str(fields["text"]),
            time=NOW - 3600 + 60 * row,
            slice=fields["slice"],
            label=fields["label"],
            logits=(row / 4, -1.5),
        )
        for row, fields in enumerate(ROWS)
    ]
    assert [batch.received for batch in batches] == [7, 7, 6]
    assert [batch.positions for batch in batches] == [{"file": 7}, {"file": 14}, {"file": 20}]
    assert [batch.ended for batch in batches] == [False, False, True]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("position", [0, 1, 6, 13, 19, 20, 25])
def test_it_goes_on_from_any_position(written: Callable[..., Path], suffix: str, position: int) -> None:
    """Sought to a row, it gives that row and every later one, even after it has read others."""
    source = source_of(written(suffix))
    source.read()
    source.seek({"file": position, "another source": 3})
    batches = drained(source)
    assert [record.id for record in records_in(batches)] == [f"{row:03}" for row in range(position, 20)]
    assert batches[-1].positions == {"file": max(position, 20)}
    source.seek({})
    assert len(records_in(drained(source))) == 20


def test_a_table_in_many_pieces_resumes_exactly(tmp_path: Path) -> None:
    """Pieces of the file and batches of the agent need not fit each other."""
    path = tmp_path / "long.parquet"
    parquet.write_table(
        pa.table({"text": ["film"] * 3000, "id": pa.array(range(3000)), "logits": [[1, 2]] * 3000}), path
    )
    for position in (1023, 1024, 2500):
        source = source_of(path, size=500)
        source.seek({"file": position})
        assert [record.id for record in records_in(drained(source))] == [str(row) for row in range(position, 3000)]


def test_blank_lines_count_as_rows_but_not_as_records(tmp_path: Path) -> None:
    """A blank line moves the position, so that resuming is exact, and is neither a record nor rejected."""
    path = tmp_path / "stream.jsonl"
    path.write_bytes(b'\n{"text": "a", "logits": [1, 2]}\r\n \t\n\n{"text": "b", "logits": [1, 2]}')
    (batch,) = drained(source_of(path))
    assert [(record.id, record.text) for record in batch.records] == [("file:2", "a"), ("file:5", "b")]
    assert (batch.received, batch.positions) == (2, {"file": 5})


def test_rejected_rows_are_counted_and_passed(tmp_path: Path) -> None:
    """Bad rows stop nothing; each is counted under its reason."""
    path = tmp_path / "stream.jsonl"
    good = '{"text": "a", "logits": [1, 2]}'
    path.write_text(f'{good}\noops\n{{}}\n{good}\n{{"text": 1}}\noops', encoding="utf-8")
    batches = drained(source_of(path, size=4))
    assert [dict(batch.rejected) for batch in batches] == [
        {Reason.NOT_JSON: 1, Reason.NO_TEXT: 1},
        {Reason.TEXT_NOT_STRING: 1, Reason.NOT_JSON: 1},
    ]
    assert batches[-1].positions == {"file": 6}


def test_bad_cells_of_a_table_are_rejected_records(tmp_path: Path) -> None:
    """A list that is no list, a moment that is none, or a missing text concern their own row only."""
    path = tmp_path / "stream.csv"
    path.write_text(
        'text,logits,timestamp,probabilities\na,"[1, 2]",2026-08-21T09:00:00Z,oops\nb,oops,,\nc,"[1, ""x""]",,\n'
        'd,"[1, 2]",yesterday,\n,"[1, 2]",,\n"  ","[1, 2]",,\ne,"[1, 2]",1787306400,"{""positive"": 1}"\n'
        f'f,"{"[" * 50_000}",,\n',
        encoding="utf-8",
    )
    (batch,) = drained(source_of(path, size=99))
    assert [(record.text, record.time) for record in batch.records] == [("a", NOW - 3600), ("e", NOW)]
    assert batch.rejected == {
        Reason.LOGITS_WIDTH: 2,
        Reason.LOGITS_NOT_FINITE: 1,
        Reason.INVALID_TIME: 1,
        Reason.NO_TEXT: 1,
        Reason.EMPTY_TEXT: 1,
    }


def test_a_column_that_is_not_ours_may_hold_anything(tmp_path: Path) -> None:
    """A foreign CSV column that looks like numbers for a megabyte and then does not is no error."""
    path = tmp_path / "stream.csv"
    row = 'a,"[1, 2]",1\n'
    path.write_text(f"text,logits,theirs\n{row * 800_000}" + 'b,"[1, 2]",x\n', encoding="utf-8")
    source = source_of(path, size=4)
    source.seek({"file": 799_998})
    assert [record.text for record in records_in(drained(source))] == ["a", "a", "b"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1_787_306_400_123_456_789], pa.timestamp("ns")),
        pa.array([1_787_306_400_123_456_789], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([1_787_306_400_123_456], pa.timestamp("us", "America/New_York")),
        pa.array([1_787_306_400.123456]),
        pa.array(["2026-08-21T10:00:00.123456Z"]),
    ],
    ids=["ns", "ns zoned", "us zoned", "seconds", "text"],
)
def test_times_of_tables_are_read_in_every_type(tmp_path: Path, column: pa.Array) -> None:
    """Nanoseconds, zones, numbers and text all give the same moment."""
    path = tmp_path / "stream.parquet"
    parquet.write_table(pa.table({"text": ["a"], "logits": [[1, 2]], "timestamp": column}), path)
    (record,) = records_in(drained(source_of(path)))
    assert record.time == pytest.approx(NOW + 0.123456, abs=1e-6)


def test_a_date_is_its_midnight(tmp_path: Path) -> None:
    """A column of dates is as good as times, in CSV and in Parquet."""
    parquet.write_table(
        pa.table({"text": ["a"], "logits": [[1, 2]], "timestamp": pa.array([20_686], pa.date32())}),
        tmp_path / "a.parquet",
    )
    (tmp_path / "a.csv").write_text('text,logits,timestamp\na,"[1, 2]",2026-08-21\n')
    for suffix in ("csv", "parquet"):
        (record,) = records_in(drained(source_of(tmp_path / f"a.{suffix}")))
        assert record.time == NOW - 36_000


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_loop_brings_new_records_each_time(written: Callable[..., Path], suffix: str) -> None:
    """Every pass has ids of its own and arrival times, and resuming continues where it was."""
    clock = Clock()
    clock.now = 5.0
    source = source_of(written(suffix), size=20, clock=clock, loop=True)
    records = records_in([source.read() for _ in range(3)])
    assert len({record.id for record in records}) == 60
    assert [record.text for record in records[:20]] == [record.text for record in records[40:]]
    assert {record.time for record in records} == {NOW + 5.0}
    source.seek({"file": 30})
    assert source.read().records == tuple(records[30:50])


@pytest.mark.parametrize(("suffix", "content"), [("jsonl", b""), ("csv", b"text,id\n")])
def test_a_loop_over_nothing_ends(tmp_path: Path, suffix: str, content: bytes) -> None:
    """An empty file does not keep the agent busy for ever."""
    path = tmp_path / f"empty.{suffix}"
    path.write_bytes(content)
    assert source_of(path, loop=True).read().ended


def test_a_rate_is_kept(written: Callable[..., Path]) -> None:
    """Ten records a second take their time by the clock that was passed in, and the last read comes at the end."""
    clock = Clock()
    source = source_of(written("jsonl"), size=4, clock=clock, rate=10)
    sent = 0
    for _ in range(1000):
        batch = source.read()
        sent += len(batch.records)
        assert sent <= 10 * clock.now + 1e-6
        if batch.ended:
            break
    assert sent == 20
    assert clock.now == pytest.approx(2.4, abs=0.5)


DAMAGE = {
    "csv": (lambda content: content.replace(b"\n", b"\n\xff", 1), "In CSV column #0: CSV conversion error"),
    "parquet": (lambda content: content[: len(content) // 2], "Parquet magic bytes not found"),
}


@pytest.mark.parametrize("suffix", DAMAGE)
def test_a_damaged_table_is_a_plain_error(written: Callable[..., Path], suffix: str) -> None:
    """The message names the file and what is wrong, without the row's text."""
    path = written(suffix)
    damage, complaint = DAMAGE[suffix]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError) as caught:
        drained(source_of(path))
    assert str(caught.value).startswith(f"{path}: cannot be read as {suffix}: {complaint}")


def test_a_csv_row_of_another_width_costs_that_row_only(written: Callable[..., Path]) -> None:
    """It is counted as malformed; the rows around it are records, and no restart meets it again."""
    path = written("csv")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], b"only,two\n", *lines[9:]]))
    batches = drained(source_of(path))
    assert len(records_in(batches)) == 20
    assert sum(batch.rejected[Reason.MALFORMED_ROW] for batch in batches) == 1
    assert batches[-1].positions == {"file": 21}


def test_the_rows_before_damage_are_kept(written: Callable[..., Path]) -> None:
    """A file that ends in damage gives the rows before it first, and the error with the next read."""
    path = written("csv")
    source = source_of(path)
    source._rows = iter_then_fail(path)
    assert source.read().received == 2
    with pytest.raises(UsageError, match="damaged"):
        source.read()


def iter_then_fail(path: Path) -> Iterator[bytes]:
    """Two rows, then what a reader says of a damaged file."""
    yield from [b'{"text": "a", "logits": [1, 2]}'] * 2
    raise UsageError(f"{path}: damaged")


def test_a_fingerprint_stays_while_a_file_grows(written: Callable[..., Path]) -> None:
    """Appending leaves it as it is; another file under the same name has another one."""
    for suffix in ("jsonl", "csv"):
        path = written(suffix)
        before = fingerprint(path)
        path.write_bytes(path.read_bytes() * 2)
        assert fingerprint(path) == before
        path.write_bytes(b"another\nfile\n")
        assert fingerprint(path) != before


def test_a_table_damaged_inside_is_a_plain_error(written: Callable[..., Path]) -> None:
    """Bytes overwritten in the middle of a Parquet file are noticed when they are read."""
    path = written("parquet")
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"stream\.parquet: cannot be read as parquet: "):
        drained(source_of(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.jsonl", "no such file"),
        ("", "no such file"),
        ("table.xlsx", "the name must end in .parquet, .csv or .jsonl"),
    ],
)
def test_a_path_that_cannot_be_a_stream_is_refused(tmp_path: Path, name: str, message: str) -> None:
    """Before anything is read, with the key of the configuration."""
    (tmp_path / "table.xlsx").touch()
    with pytest.raises(UsageError) as caught:
        source_of(tmp_path / name)
    assert str(caught.value) == f"source.file.path: {tmp_path / name}: {message}"


def test_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence gives an empty batch at once, so that a stop is noticed; numbering goes on from the last run."""
    reading, writing = os.pipe()
    monkeypatch.setattr(lines, "PATIENCE", 0.0)
    silences = 0

    def arriving(_: int, most: int) -> Iterator[bytes | None]:
        nonlocal silences
        for line in lines.descriptor_lines(reading, most):
            silences += line is None
            yield line

    monkeypatch.setattr("agent.sources.file.descriptor_lines", arriving)
    source = source_of(STDIN)
    source.seek({"file": 100})
    assert (source.read().received, source.read().ended, silences) == (0, False, 2)
    os.write(writing, b'{"text": "a", "logits": [1, 2]}\n{"text": "b", "log')
    batch = source.read()
    assert [record.id for record in batch.records] == ["file:101"]
    assert source.read().received == 0
    os.write(writing, b'its": [1, 2]}\nnot json\n')
    batch = source.read()
    assert ([record.id for record in batch.records], batch.rejected) == (["file:102"], {Reason.NOT_JSON: 1})
    os.close(writing)
    assert (source.read().ended, batch.positions) == (True, {"file": 103})
    os.close(reading)


def test_committing_a_file_is_harmless(written: Callable[..., Path]) -> None:
    """Nobody else needs to know; reading goes on."""
    source = source_of(written("jsonl"))
    source.read()
    source.commit({"file": 7})
    assert source.read().positions == {"file": 14}

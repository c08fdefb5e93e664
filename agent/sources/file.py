"""Records from a file: JSON Lines, CSV, Parquet, or JSON Lines on standard input.

Delivery: a position is the number of the next row. With a state store every row is counted exactly once across
restarts; standard input cannot be read twice, so what a crash held in flight is lost there.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import UsageError
from agent.messages import Message, Row
from agent.reasons import Reason
from agent.report import SourceStatus
from agent.sources.lines import PIECE, descriptor_lines, file_lines
from agent.sources.pace import Pace
from agent.tables import FORMATS, SUFFIXES, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agent.batch import Batch
    from agent.intake import Intake
    from agent.source_config import FileSourceConfig

STDIN = Path("-")
PARTITION = "file"
# A line, the fields of a table's row, or why a row has none.
Line = bytes | dict[str, object] | Reason


@dataclass(frozen=True)
class Timing:
    """The clocks of a source: `wait` sleeps but returns early when the agent is told to stop."""

    wait: Callable[[float], object]
    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time


class FileSource:
    """Reads batches of at most `size` rows."""

    def __init__(self, config: FileSourceConfig, intake: Intake, size: int, timing: Timing) -> None:
        if config.path != STDIN and not config.path.is_file():
            raise UsageError(f"source.file.path: {config.path}: no such file")
        if config.path != STDIN and config.path.suffix not in SUFFIXES:
            raise UsageError(f"source.file.path: {config.path}: the name must end in {FORMATS}")
        if config.path.suffix in {".csv", ".parquet"} and config.format != "native":
            raise UsageError(
                f"source.file.format: {config.format} comes in lines of JSON; {config.path} is a table, whose "
                "columns are native fields. Remove `format`, or give a .jsonl file"
            )
        self._config = config
        self._intake = intake
        self._most = intake.expected.most_bytes
        self._size = size
        self._timing = timing
        self._pace = Pace(config.rate, timing.monotonic, timing.wait)
        self._position = 0
        self._rows = self._from(0)
        self._damage: UsageError | None = None

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on from the row number in `positions`, or from the first row."""
        self._position = positions.get(PARTITION, 0)
        self._rows = self._from(self._position)

    def commit(self, positions: Mapping[str, int]) -> bool:
        """Nobody else needs to know how far a file was read."""
        del positions
        return True

    def drain(self) -> bool:
        """A file can be read again."""
        return False

    def status(self) -> SourceStatus:
        """A file is there or the agent would not run."""
        return SourceStatus()

    def close(self) -> None:
        """The file is closed with its last row, or with the process."""

    def read(self) -> Batch:
        """The next rows as records, at the configured rate. UsageError if the file is damaged there."""
        if self._damage:
            raise self._damage
        found: list[Message | Row] = []
        ended = False
        try:
            for _ in range(self._pace.allow(self._size)):
                row = next(self._rows)
                if row is None:
                    break
                self._position += 1
                self._keep(row, found)
        except StopIteration:
            ended = True
        except UsageError as error:
            self._damage = error  # raised by the next read, so that the rows before it are kept
        return self._intake.batch(found, {PARTITION: self._position}, ended=ended)

    def _keep(self, row: Line, found: list[Message | Row]) -> None:
        origin, arrival = f"{PARTITION}:{self._position}", self._timing.epoch()
        if not isinstance(row, bytes):
            found.append(Row(row, origin, arrival))
        elif row.strip():
            found.append(Message(row, origin, arrival))

    def _from(self, start: int) -> Iterator[Line | None]:
        """The rows from number `start` on, over and over in a loop."""
        if self._config.path == STDIN:
            return descriptor_lines(0, self._most)
        if not self._config.loop:
            return self._once(start)
        return islice(self._again(), start, None)

    def _again(self) -> Iterator[Line]:
        """The rows over and over; none if the file has none."""
        rows_seen = True
        while rows_seen:
            rows_seen = False
            for row in self._once(0):
                rows_seen = True
                yield row

    def _once(self, start: int) -> Iterator[Line]:
        path = self._config.path
        if path.suffix == ".jsonl":
            return islice(file_lines(path, self._most), start, None)
        return map(_native, rows(path, start))


def _native(row: dict[str, object] | None) -> Line:
    """A table's row as native fields: cells that are empty are fields that are absent."""
    if row is None:
        return Reason.MALFORMED_ROW
    return {name: value for name, value in row.items() if value is not None}


def fingerprint(path: Path) -> str:
    """What tells a file from another one of its name: a digest of its beginning, which appending leaves as it is.

    The first line of JSON Lines, the first two of CSV (the first alone are names), 4 KiB of Parquet.
    """
    if path == STDIN:
        return "standard input"
    try:
        with path.open("rb") as stream:
            start = stream.read(4096) if path.suffix == ".parquet" else stream.readline(PIECE)
            start += stream.readline(PIECE) if path.suffix == ".csv" else b""
    except OSError:
        return "nothing"  # the source itself says so, in its own words
    return hashlib.sha256(start).hexdigest()[:16]

"""Reads past records that kafka-python cannot parse, where it would read nothing of their partition ever again.

A header name that is not UTF-8, compressed bytes that are damaged, a batch whose checksum is wrong: kafka-python
raises in the middle of a batch without saying where, and its next poll never comes back. Here such a record is
delivered with `UNREADABLE` for a value, and the good ones around it as they are. kafka-python still decides which
records are delivered at all: markers and aborted records of transactions are not, nor what compaction has removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.record.util import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A checksum that does not agree may be the network's fault: fetched again so often, it is the log's.
REFETCHES = 3
# The message format in which a batch says how many records it holds, and up to which offset.
BATCHED = 2


class _Mark(bytes):
    """A value that no record has."""

    __slots__ = ()


UNREADABLE = _Mark()


@dataclass(slots=True)
class Doubt:
    """Of one partition: how often the batch at an offset has been fetched, and where we step without seeing."""

    at: int = -1
    tries: int = 0
    blind: int = -1


class Salvage:
    """What is remembered between the answers of the broker; one for each consumer."""

    def __init__(self) -> None:
        self._doubts: dict[Any, Doubt] = {}

    def install(self, consumer: Any) -> None:  # noqa: ANN401 - kafka-python is not typed
        """Have this consumer read so."""
        fetcher = consumer._fetcher  # noqa: SLF001 - kafka-python has no other place for it
        parse = fetcher.PartitionRecords

        def parse_carefully(offset: int, spot: Any, records: Any, **options: Any) -> Any:  # noqa: ANN401
            return parse(offset, spot, self.records(offset, spot, records), **options)

        fetcher.PartitionRecords = parse_carefully

    def records(self, offset: int, spot: Any, records: Any) -> Records:  # noqa: ANN401
        """The broker's answer to a fetch from this offset of this partition."""
        return Records(records, offset, self._doubts.setdefault(spot, Doubt()))


class Records:
    """The batches of one answer. It ends early where the rest is to be fetched again."""

    def __init__(self, records: Any, offset: int, doubt: Doubt) -> None:  # noqa: ANN401
        self._records = records
        self._at = offset
        self._doubt = doubt
        self._over = False

    def next_batch(self) -> Batch | Stretch | None:
        """The next one, None after the last."""
        if self._over:
            return None
        try:
            batch = self._records.next_batch()
            sound = batch is None or batch.validate_crc()
        except Exception:  # noqa: BLE001 - anything may come of damaged bytes
            batch, sound = None, False
        if not sound:
            return self._pass_over(batch)
        if batch is None:
            return None
        self._at = batch.next_offset if batch.magic == BATCHED else batch.base_offset + 1
        return Batch(batch)

    def _pass_over(self, batch: Any) -> Stretch | None:  # noqa: ANN401
        """What is lost with a damaged batch, once it is certain that it will not come in one piece."""
        at, doubt = self._at, self._doubt
        if doubt.at != at:
            doubt.at, doubt.tries = at, 0
        if doubt.tries < REFETCHES and doubt.blind != at:
            doubt.tries += 1
            self._over = True
            return None
        if batch is not None and _believable(batch, at):
            self._at = batch.next_offset
            return Stretch(range(batch.base_offset, batch.next_offset), batch.next_offset)
        # Nobody knows how many there were: that is one record, and then offset by offset to where it ends.
        self._over = True
        known = () if doubt.blind == at else (at,)
        doubt.blind = at + 1
        return Stretch(known, at + 1)


def _believable(batch: Any, at: int) -> bool:  # noqa: ANN401
    """Whether the two numbers in the damaged batch that tell its size agree."""
    return bool(
        batch.magic == BATCHED
        and batch.last_offset >= at
        and batch.records_count == batch.last_offset_delta + 1 >= 1
    )


class Lost:
    """A record that cannot be read, with all that kafka-python asks of one."""

    __slots__ = ("offset",)
    timestamp, timestamp_type, size_in_bytes = -1, 0, 0
    key, value, checksum = None, UNREADABLE, None
    headers: tuple[()] = ()

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def validate_crc(self) -> bool:
        """There is nothing to check."""
        return True


class Stretch:
    """In place of a damaged batch: the records that are lost with it."""

    magic, leader_epoch, is_control_batch = BATCHED, -1, False

    def __init__(self, offsets: Iterable[int], following: int) -> None:
        self._offsets = offsets
        self.next_offset = following

    def __iter__(self) -> Iterator[Lost]:
        return map(Lost, self._offsets)

    def validate_crc(self) -> bool:
        """It has failed already."""
        return True

    def has_producer_id(self) -> bool:
        """So that nothing is looked up of its transaction."""
        return False


class Batch:
    """A batch that came as it was sent, which does not mean that each of its records can be read."""

    def __init__(self, batch: Any) -> None:  # noqa: ANN401
        self._batch = batch

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return _records(self._batch) if self._batch.magic == BATCHED else _old_records(self._batch)

    def __next__(self) -> Any:  # noqa: ANN401
        """Of a marker, which says how a transaction ended; None if it does not."""
        try:
            return next(self._batch)
        except Exception:  # noqa: BLE001
            return None

    def validate_crc(self) -> bool:
        """It has been checked."""
        return True


def _records(batch: Any) -> Iterator[Any]:  # noqa: ANN401
    last, left = batch.base_offset - 1, batch.records_count
    if _unpacked(batch):
        while left > 0:
            try:
                record = next(batch)
                _check_whole(batch)
            except Exception:  # noqa: BLE001 - anything may come of damaged bytes
                offset = _step_over(batch)
                if offset is None or not last < offset <= batch.last_offset:
                    break
                record = Lost(offset)
            last, left = record.offset, left - 1
            yield record
    # How many there are is known; where some were compacted away, not which.
    yield from map(Lost, range(last + 1, min(last + left, batch.last_offset) + 1))


def _unpacked(batch: Any) -> bool:  # noqa: ANN401
    try:
        iter(batch)
    except UnsupportedCodecError:
        raise  # what is wrong is here, and may be mended
    except Exception:  # noqa: BLE001 - each codec has errors of its own
        return False
    return True


def _check_whole(batch: Any) -> None:  # noqa: ANN401
    if batch._pos > len(batch._buffer):  # noqa: SLF001
        raise CorruptRecordError("the record is longer than its batch")


def _step_over(batch: Any) -> int | None:  # noqa: ANN401
    """Go to the end of the record that could not be read, if it says where that is; its offset."""
    buffer = batch._buffer  # noqa: SLF001
    try:
        length, start = decode_varint(buffer, batch._pos)  # noqa: SLF001
        _, place = decode_varint(buffer, start)
        _, place = decode_varint(buffer, place)
        delta, place = decode_varint(buffer, place)
    except (IndexError, ValueError):
        return None
    if not place <= start + length <= len(buffer):
        return None
    batch._pos = start + length  # noqa: SLF001
    batch._next_record_index += 1  # noqa: SLF001
    return int(batch.base_offset + delta)


def _old_records(batch: Any) -> Iterator[Any]:  # noqa: ANN401
    """Of the formats before Kafka 0.11, where a batch is known by its last offset, and does not tell how many."""
    try:
        yield from batch
    except UnsupportedCodecError:
        raise
    except Exception:  # noqa: BLE001
        yield Lost(batch.base_offset)

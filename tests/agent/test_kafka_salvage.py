"""Records that kafka-python cannot parse cost themselves, and neither the agent nor the records around them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c
from structlog.testing import capture_logs

from agent.sources.kafka.salvage import REFETCHES, UNREADABLE, Salvage
from tests.agent.kafka_loop import reading, settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.kafka_broker import Broker

SPOT = TopicPartition("t", 0)
CODECS = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
codecs = pytest.mark.parametrize("codec", CODECS)
# Where a batch has its parts (message format 2).
MAGIC, CHECKSUM, ATTRIBUTES, LAST, RECORDS, CONTENT = 16, 17, 21, 23, 57, 61


class NoUtf8(str):
    """A header's name as other clients may write it."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        """What goes out."""
        return b"\xff\xfe"


BAD: list[tuple[str, bytes]] = [("fine", b"1"), (NoUtf8("x"), b"2")]


def batch(
    start: int,
    bodies: Sequence[bytes],
    bad: Iterable[int] = (),
    codec: str | None = None,
    gaps: Iterable[int] = (),
) -> bytearray:
    """A batch from this offset on: records at `bad` cannot be parsed, before those at `gaps` one is missing."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=CODECS[codec], batch_size=1 << 20)
    for place, body in enumerate(bodies):
        if place in gaps:
            builder.skip(1)
        builder.append(timestamp=1, key=None, value=body, headers=BAD if place in bad else [("a", b"1")])
    builder.close()
    content = bytearray(builder.buffer())
    content[:8] = struct.pack(">q", start)
    return content


def resealed(content: bytearray) -> bytearray:
    """With a checksum that agrees, as if it had been sent so."""
    content[CHECKSUM:ATTRIBUTES] = struct.pack(">I", calc_crc32c(memoryview(content)[ATTRIBUTES:]))
    return content


def flipped(content: bytearray, place: int, bits: int = 0xFF) -> bytearray:
    """With another byte at this place."""
    content = content.copy()
    content[place] ^= bits
    return content


@dataclass
class Log:
    """A partition: first and next offset and bytes of each batch. Fetched as a consumer fetches it."""

    batches: list[tuple[int, int, bytes]]
    position: int = 0
    salvage: Salvage = field(default_factory=Salvage)
    found: list[tuple[int, bytes | None]] = field(default_factory=list)

    def fetch(self, most: int = 1000) -> None:
        """One answer of the broker, `most` records at a time."""
        left = b"".join(content for _, following, content in self.batches if following > self.position)
        records = self.salvage.records(self.position, SPOT, MemoryRecords(left))
        parsed = Fetcher.PartitionRecords(self.position, SPOT, records)
        while parsed:
            self.found += [
                (one.offset, None if one.value is UNREADABLE else one.value) for one in parsed.take(most)
            ]
        self.position = parsed.next_fetch_offset

    def read(self, fetches: int = 1) -> list[tuple[int, bytes | None]]:
        """What has come after so many answers; None for what is unreadable."""
        for _ in range(fetches):
            self.fetch()
        return self.found


def log(*batches: tuple[int, bytearray]) -> Log:
    """Of batches and the offsets after them."""
    starts = [0, *(following for following, _ in batches)]
    return Log([(start, following, bytes(one)) for start, (following, one) in zip(starts, batches, strict=False)])


BODIES = [b"%d" % number for number in range(5)]
LATER = (7, batch(5, [b"5", b"6"]))


def whole(*lost: int, until: int = 7) -> list[tuple[int, bytes | None]]:
    """Every offset with its body, but for these."""
    return [(offset, None if offset in lost else b"%d" % offset) for offset in range(until)]


@codecs
def test_record_with_a_bad_header_is_lost_alone(codec: str | None) -> None:
    """Those before and after it in the batch are read, also where several are bad or all of them."""
    assert log((5, batch(0, BODIES, [0, 2, 3], codec)), LATER).read() == whole(0, 2, 3)
    assert log((5, batch(0, BODIES, range(5), codec)), LATER).read() == whole(*range(5))


@codecs
def test_reading_begins_in_the_middle_of_a_batch(codec: str | None) -> None:
    """What lies before the position is not told again, whether it can be read or not."""
    found = log((5, batch(0, BODIES, [1, 3], codec)))
    found.position = 3
    assert found.read() == [(3, None), (4, b"4")]
    assert found.position == 5


def test_wrong_checksum_that_goes_away_costs_nothing() -> None:
    """It was the network's: the records come once, in order."""
    good = batch(0, BODIES)
    found = log((5, flipped(good, -1)), LATER)
    assert found.read(REFETCHES) == []
    found.batches[0] = (0, 5, bytes(good))
    assert found.read() == whole()


def test_wrong_checksum_that_stays_costs_its_batch() -> None:
    """What came before it is read at once, what comes after it once the batch has been fetched a few times."""
    damaged = flipped(batch(5, [b"5", b"6"]), -1)
    found = log((5, batch(0, BODIES)), (7, damaged), (9, batch(7, [b"7", b"8"])))
    assert found.read() == whole(until=5)
    assert found.read(REFETCHES) == whole(5, 6, until=9)
    assert found.position == 9


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec])
def test_compressed_bytes_that_are_damaged_cost_their_batch(codec: str) -> None:
    """The checksum agrees, so that it was sent like this and no second fetch would help."""
    content = batch(0, BODIES, codec=codec)
    content[CONTENT:] = b"\x00" * (len(content) - CONTENT)
    found = log((5, resealed(content)), LATER)
    assert found.read() == whole(*range(5))
    assert found.position == 7


def test_offsets_that_were_compacted_away_are_no_records() -> None:
    """Of a batch that is unpacked in vain only its records count; the position passes the gaps too."""
    gaps = {"codec": "gzip", "gaps": [1, 3]}
    good = log((7, batch(0, BODIES, [2], **gaps)))
    assert good.read() == [(0, b"0"), (2, b"1"), (3, None), (5, b"3"), (6, b"4")]
    content = batch(0, BODIES, **gaps)
    content[CONTENT:] = b"\x00" * (len(content) - CONTENT)
    found = log((7, resealed(content)))
    assert [body for _, body in found.read()] == [None] * 5
    assert found.position == 7


def test_damaged_batch_of_unknown_size_counts_as_one_record() -> None:
    """Its numbers disagree: reading goes on offset by offset, and finds the next batch."""
    damaged = flipped(batch(0, BODIES), LAST + 3, 0x02)
    found = log((5, damaged), LATER)
    assert found.read(REFETCHES) == []
    assert found.read(6) == [(0, None), (5, b"5"), (6, b"6")]
    behind = batch(0, BODIES)
    behind[LAST + 3], behind[RECORDS + 3] = 1, 2
    found = log((5, behind), LATER)
    found.position = 3
    assert found.read(REFETCHES + 3) == [(3, None), (5, b"5"), (6, b"6")]


def test_record_that_lies_about_its_length_costs_the_rest_of_its_batch() -> None:
    """Where the next one begins is unknown; how many there are is not."""
    content = batch(0, BODIES)
    size = (len(content) - CONTENT) // 5
    content[CONTENT + 2 * size] = 0x7E
    assert log((5, resealed(content)), LATER).read() == whole(2, 3, 4)
    other = batch(0, BODIES, [2])
    other[CONTENT + 2 * size + 3] = 0x00  # it claims to be the first one
    assert log((5, resealed(other)), LATER).read() == whole(2, 3, 4)


@pytest.mark.parametrize("missing", [1, 3])
def test_record_that_is_cut_short_is_lost(missing: int) -> None:
    """Even by the last byte of its last header, where kafka-python would read what is left of it."""
    assert log((5, resealed(_shortened(batch(0, BODIES), missing))), LATER).read() == whole(4)


def _shortened(content: bytearray, count: int) -> bytearray:
    content = content[:-count]
    content[8:12] = struct.pack(">i", len(content) - 12)
    return content


def test_codec_that_is_missing_here_is_no_fault_of_the_records() -> None:
    """Reading fails, so that nothing is passed over that could be read by a whole installation."""
    content = batch(0, BODIES)
    content[ATTRIBUTES + 1] = 7
    with pytest.raises(UnsupportedCodecError):
        log((5, resealed(content))).read()


def test_batch_of_an_old_format_is_read_or_counted_once() -> None:
    """It is known by its last offset only."""
    builder = MemoryRecordsBuilder(magic=1, compression_type=CODECS["gzip"], batch_size=1 << 20)
    for body in BODIES:
        builder.append(timestamp=1, key=None, value=body)
    builder.close()
    good = bytearray(builder.buffer())
    good[:8] = struct.pack(">q", 4)
    assert log((5, good), LATER).read() == whole()
    damaged = good.copy()
    damaged[-12:] = b"\x00" * 12
    # Its checksum is another one, over all that follows it.
    damaged[12:16] = struct.pack(">I", zlib.crc32(damaged[16:]))
    assert log((5, damaged), LATER).read() == [(4, None), (5, b"5"), (6, b"6")]


@given(
    codec=st.sampled_from(list(CODECS)),
    place=st.integers(MAGIC, 400),
    bits=st.integers(1, 255),
    seal=st.booleans(),
    most=st.integers(1, 7),
)
def test_any_byte_may_be_wrong(codec: str | None, place: int, bits: int, *, seal: bool, most: int) -> None:
    """Nothing raises or hangs, the end is reached, and the batches before and after it come whole."""
    content = batch(5, BODIES, [2], codec)
    damaged = flipped(content, MAGIC + (place - MAGIC) % (len(content) - MAGIC), bits)
    if seal and not damaged[ATTRIBUTES + 1] & 0x07 > max(CODECS.values()) and damaged[MAGIC] == content[MAGIC]:
        if damaged[ATTRIBUTES:CONTENT] != content[ATTRIBUTES:CONTENT]:
            return  # numbers that a sender has made up and sealed are believed
        resealed(damaged)
    found = log((5, batch(0, BODIES)), (10, damaged), (12, batch(10, [b"10", b"11"])))
    for _ in range(REFETCHES + 10):
        found.fetch(most)
    assert found.position == 12
    assert found.found[:5] == whole(until=5)
    assert found.found[-2:] == [(10, b"10"), (11, b"11")]
    assert len(found.found) <= 12


def send(broker: Broker, topic: str, bodies: Iterable[bytes], bad: Iterable[int] = (), **options: Any) -> None:  # noqa: ANN401
    """One batch into partition 1."""
    with KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=300, **options) as producer:
        for number, body in enumerate(bodies):
            producer.send(topic, body, partition=1, headers=BAD if number in bad else [("a", b"1")])


def origins(loop: Any) -> list[str]:  # noqa: ANN401
    """Of what could not be read."""
    assert {letter.reason for letter in loop.letters} <= {"unreadable"}
    assert all(letter.message.unreadable and letter.message.body is None for letter in loop.letters)
    return [letter.message.origin for letter in loop.letters]


@codecs
def test_bad_header_between_good_ones_stops_neither_partition(kafka: Broker, codec: str | None) -> None:
    """It is told under its offset, once in the log; the position passes it, and a restart does not repeat it."""
    topic = f"salvage-{codec}"
    kafka.create_topic(topic, 2)
    send(kafka, topic, BODIES, [1, 3], compression_type=codec)
    kafka.produce(topic, [b"left"], partition=0)
    with reading(settings(kafka, topic)) as loop, capture_logs() as lines:
        loop.until(lambda: loop.counted.total() == 4 and len(loop.letters) == 2)
        kafka.produce(topic, [b"left"], partition=0)
        kafka.produce(topic, [b"right"], partition=1)
        loop.count(6)
        assert dict(loop.counted) == {"0": 1, "2": 1, "4": 1, "left": 2, "right": 1}
        assert origins(loop) == [f"{topic}:1:1", f"{topic}:1:3"]
        told = [line for line in lines if line["event"] == "kafka_records_unreadable"]
        assert [(line["partition"], line["records"], line["first"], line["last"]) for line in told] == [
            (1, 2, 1, 3)
        ]
        assert sorted(loop.positions.values()) == [2, 6]
        loop.until(lambda: not any(loop.source.status().lag.values()))
        assert loop.checkpoint()
    with reading(settings(kafka, topic), loop.positions) as again:
        kafka.produce(topic, [b"new"], partition=1)
        again.count(1)
        assert (dict(again.counted), again.letters) == ({"new": 1}, [])


def test_batch_that_is_damaged_on_the_brokers_disk_is_passed(kafka: Broker) -> None:
    """Each of its records is told; the batches around it are read, and the member keeps its partitions."""
    topic = "salvage-disk"
    kafka.create_topic(topic, 2)
    send(kafka, topic, BODIES, compression_type="gzip")
    start = _segment(kafka, topic).stat().st_size
    send(kafka, topic, [b"lost"] * 10, compression_type="gzip")
    with _segment(kafka, topic).open("r+b") as segment:
        segment.seek(start + CONTENT + 5)
        segment.write(b"\xaa\x55\xaa")
    kafka.produce(topic, [b"after"], partition=1)
    with reading(settings(kafka, topic)) as loop:
        loop.count(6)
        assert set(loop.counted) == {"0", "1", "2", "3", "4", "after"}
        assert origins(loop) == [f"{topic}:1:{offset}" for offset in range(5, 15)]
        assert loop.source.status().events["assigned"] == 2


def _segment(broker: Broker, topic: str) -> Path:
    return broker.directory / "data" / f"{topic}-1" / f"{0:020}.log"


def test_transactions_count_what_was_committed(kafka: Broker) -> None:
    """Markers and aborted records have offsets and are no records, also where one of them cannot be parsed."""
    topic = "salvage-transactions"
    kafka.create_topic(topic, 2)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic, linger_ms=300) as producer:
        producer.init_transactions()
        for name, end in (("kept", producer.commit_transaction), ("aborted", producer.abort_transaction)):
            producer.begin_transaction()
            for headers in ([], BAD, []):
                producer.send(topic, name.encode(), partition=1, headers=headers)
            producer.flush()
            end()
    kafka.produce(topic, [b"after"], partition=1)
    with reading(settings(kafka, topic)) as loop:
        loop.count(3)
        assert dict(loop.counted) == {"kept": 2, "after": 1}
        assert origins(loop) == [f"{topic}:1:1"]
        assert max(loop.positions.values()) == 9
        loop.until(lambda: not any(loop.source.status().lag.values()))


@codecs
def test_records_arrive_exactly_in_each_codec(kafka: Broker, codec: str | None) -> None:
    """Empty, small and large ones, with what repeats and what does not."""
    topic = f"codec-{codec}"
    kafka.create_topic(topic, 2)
    bodies = ["", "a", "ü" * 70_000, *map(str, range(2000)), "".join(map(chr, range(0x4E00, 0x9000)))]
    send(kafka, topic, [body.encode() for body in bodies], compression_type=codec)
    with reading(settings(kafka, topic)) as loop:
        loop.count(len(bodies))
        assert loop.counted == dict.fromkeys(bodies, 1)
        assert not loop.letters

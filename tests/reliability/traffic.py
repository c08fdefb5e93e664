"""Traffic as a production model sends it: records of three slices, some twice, some that nobody can use."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError

from agent.records import Record
from tests.reliability.small_model import text

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Sequence

    from tests.kafka_broker import Broker

SLICES = ("tenant-a", "tenant-b", None)
# One of each reason; none of them may stop anything.
POISON = {
    "not_json": b'{"text": "half a rec',
    "no_text": b"{}",
    "empty_text": b'{"text": " "}',
    "not_an_object": b"[1, 2]",
    "invalid_time": b'{"text": "ba", "time": "noon"}',
}
TWICE, POISONED = 0.03, 0.02
LATELY = 200
BUSY = (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError)


@dataclass
class Traffic:
    """Makes records, `step` seconds of event time apart, from `start` on (epoch seconds)."""

    chance: random.Random
    start: float
    step: float = 0.2
    twice: float = TWICE
    made: list[Record] = field(default_factory=list)

    def record(self, **instead: Any) -> Record:  # noqa: ANN401 - any field of a record
        """The next one."""
        number = len(self.made)
        given: dict[str, Any] = {
            "id": f"record-{number}",
            "text": text(self.chance),
            "time": self.start + number * self.step,
            "slice": self.chance.choice(SLICES),
        }
        made = Record(**(given | instead))
        self.made.append(made)
        return made

    def messages(self, number: int) -> list[bytes]:
        """So many records and, beside them, some that come twice and some that are poison."""
        bodies: list[bytes] = []
        for _ in range(number):
            bodies.append(body_of(self.record()))
            if self.chance.random() < self.twice:
                bodies.append(body_of(self.chance.choice(self.made[-LATELY:])))
            if self.chance.random() < POISONED:
                bodies.append(self.chance.choice(list(POISON.values())))
        return bodies


def hours_ago(hours: float = 24.0) -> float:
    """A whole hour in the past, so that no record of the test is from the future (epoch seconds)."""
    return (time.time() // 3600 - hours) * 3600


def body_of(record: Record) -> bytes:
    """The record as native JSON."""
    return json.dumps({name: value for name, value in asdict(record).items() if value is not None}).encode()


@dataclass(frozen=True)
class Log:
    """What a topic really holds, read back from the broker: the truth of a test."""

    records: Sequence[Record]  # each id once, as it came first
    poison: dict[str, str]  # reason by origin
    twice: int

    def __len__(self) -> int:
        return len(self.records) + len(self.poison) + self.twice

    @classmethod
    def of(cls, broker: Broker, topic: str) -> Log:
        """Everything in the topic."""
        reasons = {body: reason for reason, body in POISON.items()}
        records: dict[str, Record] = {}
        poison: dict[str, str] = {}
        twice = 0
        for origin, body in read_back(broker, topic):
            if body in reasons:
                poison[origin] = reasons[body]
                continue
            record = Record(**json.loads(body))
            twice += record.id in records
            records.setdefault(record.id, record)
        return cls(list(records.values()), poison, twice)

    @property
    def reasons(self) -> Counter[str]:
        """How many messages of each kind of poison there are."""
        return Counter(self.poison.values())


def read_back(broker: Broker, topic: str) -> Iterator[tuple[str, bytes]]:
    """Every message of a topic with its origin."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, group_id=None
    )
    try:
        spots = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(spots)
        consumer.seek_to_beginning(*spots)
        ends = consumer.end_offsets(spots)
        while any(consumer.position(spot) < ends[spot] for spot in spots):
            for found in consumer.poll(timeout_ms=500).values():
                for message in found:
                    yield f"{message.topic}:{message.partition}:{message.offset}", message.value
    finally:
        consumer.close()


def ends_of(broker: Broker, topic: str) -> dict[int, int]:
    """The offset after the last message of each partition."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False, group_id=None)
    try:
        spots = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        return {spot.partition: end for spot, end in consumer.end_offsets(spots).items()}
    finally:
        consumer.close()


def committed(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    """What the group has committed, by topic and partition; nothing from a broker that is busy with itself."""
    with broker.admin() as admin:
        try:
            found = admin.list_group_offsets({group: None})[group]
        except BUSY:
            return {}
    return {(spot.topic, spot.partition): noted.offset for spot, noted in found.items() if noted.offset >= 0}


def members(broker: Broker, group: str) -> int:
    """How many members the group has; 0 while it hands partitions around."""
    with broker.admin() as admin:
        try:
            found = admin.describe_groups([group])[group]
        except BUSY:
            return 0
    return len(found["members"]) if found["group_state"] == "Stable" else 0


def produce(broker: Broker, topic: str, bodies: Iterable[bytes], chance: random.Random) -> None:
    """Write these to partitions at random, and return once the broker has them all."""
    partitions = len(ends_of(broker, topic))
    with KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5) as producer:
        for future in [producer.send(topic, body, partition=chance.randrange(partitions)) for body in bodies]:
            future.get(timeout=60)


@contextmanager
def flowing(broker: Broker, topic: str, traffic: Traffic, rate: float, partitions: int = 3) -> Iterator[None]:
    """Traffic at so many records a second, from another thread, until the block ends; then all of it is written.

    A broker that is away meanwhile gets it later.
    """
    stop = Event()
    failed: list[BaseException] = []

    def feed() -> None:
        sent = []
        with KafkaProducer(
            bootstrap_servers=broker.bootstrap, linger_ms=20, delivery_timeout_ms=120_000, max_block_ms=120_000
        ) as producer:
            began, done = time.monotonic(), 0
            while not stop.wait(0.05):
                due = int((time.monotonic() - began) * rate) - done
                sent += [
                    producer.send(topic, body, partition=traffic.chance.randrange(partitions))
                    for body in traffic.messages(due)
                ]
                done += due
            for future in sent:
                future.get(timeout=120)

    def guarded() -> None:
        try:
            feed()
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    thread = Thread(target=guarded, name="traffic", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(180)
    assert not failed, f"the traffic ended early: {failed[0]!r}"

"""A long backlog: the stream of records is that of time, however the partitions were read."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer

from tests.agent.kafka_loop import QUICK, Opened, reading, settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.batch import Batch
    from agent.messages import Message
    from tests.kafka_broker import Broker

SECONDS = 50.0
# Of each partition: how many messages in these seconds, and of how many bytes.
BUSY, STEADY, SLOW = (5000, 1024), (1250, 4096), (500, 1024)


@dataclass
class Watched(Opened):
    """Remembers when each message was written, in the order in which they came."""

    stamps: list[float] = field(default_factory=list)

    def batch(self, messages: Sequence[Message], positions: Mapping[str, int]) -> Batch:
        """As it would be."""
        self.stamps += [message.stamp for message in messages]
        return super().batch(messages, positions)

    @property
    def disorder(self) -> float:
        """By how many seconds a message came after a younger one, at most."""
        worst, newest = 0.0, 0.0
        for stamp in self.stamps:
            newest = max(newest, stamp)
            worst = max(worst, newest - stamp)
        return worst


def fill(broker: Broker, topic: str, partitions: Sequence[tuple[int, int]]) -> set[str]:
    """Write the backlog, each partition for itself; what its records are called."""
    began, names = time.time() - 3600, set()
    with KafkaProducer(bootstrap_servers=broker.bootstrap, request_timeout_ms=10_000) as producer:
        for partition, (count, size) in enumerate(partitions):
            for number in range(count):
                name = f"{partition}-{number}"
                stamp = began + number * SECONDS / count
                names.add(name.ljust(size, "."))
                producer.send(
                    topic, name.ljust(size, ".").encode(), partition=partition, timestamp_ms=int(stamp * 1000)
                )
        producer.flush(10)
    return names


@pytest.mark.parametrize("queue_bytes", [1 << 16, 1 << 20])
@pytest.mark.parametrize("partitions", [(BUSY, STEADY), (STEADY, SLOW, BUSY)], ids=["two", "three"])
def test_backlog_is_handed_out_in_the_order_of_time(
    kafka: Broker, partitions: Sequence[tuple[int, int]], queue_bytes: int
) -> None:
    """Whatever a partition's share of the bytes is, none runs ahead; nothing is lost or repeated."""
    topic = f"backlog-{time.monotonic_ns()}"
    kafka.create_topic(topic, len(partitions))
    names = fill(kafka, topic, partitions)
    config = settings(kafka, topic, queue_bytes=queue_bytes)
    with reading(config, size=64, timing=replace(QUICK, read=2.0)) as loop:
        watched = loop.source._intake = Watched()
        loop.until(lambda: loop.counted.total() >= len(names), 20.0)
    assert set(loop.counted) == names
    assert set(loop.counted.values()) == {1}
    assert watched.disorder < 1.0

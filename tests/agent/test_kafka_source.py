"""The Kafka source against a real broker: where it reads, what it commits, what stops it."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from structlog.testing import capture_logs

from agent.errors import ServiceError
from agent.source_config import BreakerConfig
from tests.agent.kafka_loop import QUICK, Opened, reading, settings, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka_broker import Broker


def bodies(start: int, end: int) -> list[bytes]:
    """One for each number."""
    return [b"%d" % number for number in range(start, end)]


def names(start: int, end: int) -> set[str]:
    """What the records of these bodies are called."""
    return {str(number) for number in range(start, end)}


def committed(broker: Broker, topic: str) -> dict[int, tuple[int, str]]:
    """Offset and metadata of each partition, as the broker knows them."""
    with broker.admin() as admin:
        offsets = admin.list_group_offsets({topic: None})[topic]
    return {spot.partition: (noted.offset, noted.metadata) for spot, noted in offsets.items() if noted.offset >= 0}


def commit_for(broker: Broker, topic: str, offset: int, owner: str) -> None:
    """As another replica would have."""
    with broker.admin() as admin:
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): OffsetAndMetadata(offset, owner, -1)})


def truncate(broker: Broker, topic: str, offset: int) -> None:
    """As retention does."""
    with broker.admin() as admin:
        admin.delete_records({TopicPartition(topic, 0): offset})


@pytest.fixture
def topic(kafka: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, named after the test."""
    name = request.node.name.partition("[")[0].removeprefix("test_")[:60] + f"-{time.monotonic_ns()}"
    kafka.create_topic(name)
    return name


def test_reads_everything_and_goes_on_from_the_positions_of_the_state(kafka: Broker, topic: str) -> None:
    """What the state has is not read again, whatever was committed; keys name the topic's incarnation."""
    kafka.produce(topic, bodies(0, 100))
    with reading(settings(kafka, topic)) as loop:
        loop.count(100)
        assert loop.checkpoint()
        (key,) = loop.positions
        assert key.startswith(f"{topic}@")
        assert key.endswith(":0")
    with reading(settings(kafka, topic), {key: 40}) as again:
        again.count(60)
        assert set(again.counted) == names(40, 100)


def test_commits_only_what_it_is_told_under_the_id_of_the_state(kafka: Broker, topic: str) -> None:
    """The broker has the offset of the last checkpoint and whose it is, also after the source is closed."""
    kafka.produce(topic, bodies(0, 100))
    with reading(settings(kafka, topic), size=30) as loop:
        loop.count(30)
        assert loop.checkpoint()
        taken = loop.counted.total()
        loop.count(taken + 1)
    assert committed(kafka, topic) == {0: (taken, "ours")}


def test_goes_on_where_another_replica_has_committed(kafka: Broker, topic: str) -> None:
    """The later one of both counts, and a state that is ahead is an overlap."""
    kafka.produce(topic, bodies(0, 100))
    commit_for(kafka, topic, 40, "theirs")
    with reading(settings(kafka, topic)) as loop:
        loop.count(60)
        assert set(loop.counted) == names(40, 100)
        (key,) = loop.positions
    with reading(settings(kafka, topic), {key: 90}) as ahead:
        ahead.count(10)
        assert set(ahead.counted) == names(90, 100)
        assert ahead.source.status().events["overlap"] == 1


def test_latest_is_told_at_once(kafka: Broker, topic: str) -> None:
    """A record that comes between a start without records and a crash is read after it."""
    kafka.produce(topic, bodies(0, 10))
    with reading(settings(kafka, topic, start="latest")) as loop:
        loop.until(lambda: loop.positions)
        assert not loop.counted
    kafka.produce(topic, bodies(10, 20))
    with reading(settings(kafka, topic, start="latest"), loop.positions) as again:
        again.count(10)
        assert set(again.counted) == names(10, 20)


@pytest.mark.parametrize(("policy", "start"), [("earliest", 60), ("latest", 100)])
def test_position_that_retention_has_passed_follows_the_policy(
    kafka: Broker, topic: str, policy: str, start: int
) -> None:
    """It is counted, and never silent."""
    kafka.produce(topic, bodies(0, 100))
    with reading(settings(kafka, topic), size=10) as loop:
        loop.count(10)
    truncate(kafka, topic, 60)
    with reading(settings(kafka, topic, out_of_range=policy), loop.positions) as again:
        again.until(lambda: again.source.status().events["out_of_range"])
        kafka.produce(topic, bodies(100, 101))
        again.count(101 - start)
        assert set(again.counted) == names(start, 101)


def test_stops_where_the_policy_says_so(kafka: Broker, topic: str) -> None:
    """Nothing is read any more, and the status says why."""
    kafka.produce(topic, bodies(0, 100))
    with reading(settings(kafka, topic), size=10) as loop:
        loop.count(10)
    truncate(kafka, topic, 60)
    with reading(settings(kafka, topic, out_of_range="stop"), loop.positions) as again:
        again.until(lambda: again.source.status().stopped)
        assert again.source.status().stopped == "out_of_range"
        assert not again.step().records
        assert again.checkpoint()


def test_retention_that_overtakes_a_running_source_is_noticed(kafka: Broker, topic: str) -> None:
    """What was read before is kept; then the policy decides, and the lag is right."""
    kafka.produce(topic, [b"%04d" % number + b" " * 2000 for number in range(1000)])
    config = settings(kafka, topic, queue_bytes=1 << 16)
    with reading(config, size=10) as loop:
        loop.until(lambda: loop.source.status().paused)
        loop.until(lambda: loop.source.status().lag)
        truncate(kafka, topic, 990)
        loop.until(lambda: loop.source.status().events["out_of_range"])
        loop.until(lambda: loop.positions and set(loop.positions.values()) == {1000})
        numbers = sorted(int(body) for body in loop.counted)
        assert numbers[-10:] == list(range(990, 1000))
        assert numbers == [*range(numbers.index(990)), *range(990, 1000)]
        loop.until(lambda: not any(loop.source.status().lag.values()))


def test_topic_made_anew_is_read_from_its_start_under_another_key(kafka: Broker, topic: str) -> None:
    """Also while the source is running: the positions of the old one mean nothing in the new one."""
    kafka.produce(topic, bodies(0, 50))
    with reading(settings(kafka, topic)) as loop:
        loop.count(50)
        assert loop.checkpoint()
        kafka.delete_topic(topic)
        kafka.create_topic(topic)
        kafka.produce(topic, bodies(50, 130))
        loop.count(130)
        assert set(loop.counted) == names(0, 130)
        assert len(loop.positions) == 2
        assert loop.source.status().events["topic_recreated"] == 1
        assert loop.checkpoint()
    assert committed(kafka, topic) == {0: (80, "ours")}


def test_queue_is_bounded_in_bytes_and_reading_goes_on_when_it_has_sunk(kafka: Broker, topic: str) -> None:
    """While nobody takes, fetching pauses and the lag stays right; afterwards everything is there once."""
    values = [b"%04d" % number + b" " * 2000 for number in range(2000)]
    kafka.produce(topic, values)
    with reading(settings(kafka, topic, queue_bytes=1 << 20)) as loop:
        wait_for(lambda: loop.source.status().paused)
        kafka.produce(topic, values[:5])
        wait_for(lambda: loop.source.status().lag == {(topic, "0"): 2005})
        # One poll more than the bound, and no more.
        assert 1 << 20 <= loop.source.status().queue_bytes < (1 << 20) + 1000 * 2600
        loop.count(2005)
        assert set(loop.counted.values()) == {1, 2}
        assert loop.source.status().queue_bytes == 0
        loop.until(lambda: loop.source.status().lag == {(topic, "0"): 0})


def test_loop_that_is_slower_than_the_poll_interval_keeps_its_partitions(kafka: Broker, topic: str) -> None:
    """The reading thread polls on while the loop scores."""
    kafka.produce(topic, bodies(0, 100))
    timing = replace(QUICK, silence=1.5, grace=1.0)
    with reading(settings(kafka, topic, session=1.0), size=50, timing=timing) as loop:
        loop.count(50)
        time.sleep(3.0)
        loop.count(100)
        assert loop.checkpoint()
        events = loop.source.status().events
        assert (events["assigned"], events["revoked"], events["lost"]) == (1, 0, 0)


def test_too_many_unusable_records_stop_reading_but_not_committing(kafka: Broker, topic: str) -> None:
    """The member stays in its group; nothing resumes by itself."""
    kafka.produce(topic, [b"bad"] * 20 + bodies(0, 100))
    config = settings(kafka, topic, breaker=BreakerConfig(ratio=0.5, least=10), session=1.0)
    with reading(config, size=20) as loop:
        loop.until(lambda: loop.source.status().stopped)
        assert loop.source.status().stopped == "schema_change"
        time.sleep(1.5)
        assert not loop.step().records
        assert loop.checkpoint()
        status, taken = loop.source.status(), loop.counted.total() + len(loop.letters)
        assert taken < 40
        assert (status.assigned, status.paused, status.lag) == (True, True, {(topic, "0"): 120 - taken})
    assert committed(kafka, topic) == {0: (taken, "ours")}


def test_reading_thread_that_hangs_is_stuck(kafka: Broker, topic: str) -> None:
    """Only a restart mends it, so the status says so."""
    kafka.produce(topic, bodies(0, 10))
    hang = Event()

    def clock() -> float:
        hang.wait()
        return time.time()

    with reading(settings(kafka, topic, stuck=1.0), timing=replace(QUICK, epoch=clock)) as loop:
        try:
            loop.step()
            assert not loop.source.status().stuck
            loop.until(lambda: loop.source.status().stuck)
        finally:
            hang.set()


def test_topic_that_is_not_there_is_waited_for(kafka: Broker, topic: str) -> None:
    """Nothing is assigned, and asking for it does not create it; it is told once, and again when it has come."""
    missing = f"{topic}-missing"
    with capture_logs() as lines, reading(settings(kafka, missing)) as loop:

        def told() -> list[str]:
            about = [line for line in lines if line["event"].startswith("kafka_topic")]
            assert {line["topic"] for line in about} <= {missing}
            return [line["event"] for line in about]

        loop.until(told)
        time.sleep(3 * QUICK.look)
        assert told() == ["kafka_topic_missing"]
        assert not loop.source.status().assigned
        with kafka.admin() as admin:
            assert missing not in admin.list_topics()
        kafka.create_topic(missing)
        kafka.produce(missing, bodies(0, 10))
        loop.count(10)
        loop.until(lambda: told() == ["kafka_topic_missing", "kafka_topic_found"])
    assert not [line for line in lines if line["event"] == "kafka_client"]


def test_listener_that_fails_ends_the_source(kafka: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python would go on and deliver records as if nothing had happened."""

    def broken(_: Iterable[object]) -> None:
        raise KeyError

    kafka.produce(topic, bodies(0, 10))
    with reading(settings(kafka, topic)) as loop:
        monkeypatch.setattr(loop.source._desk, "assign", broken)
        with pytest.raises(ServiceError, match="could not be handed over"):
            loop.count(10)
        assert not loop.counted


def test_messages_are_opened_as_they_came(kafka: Broker, topic: str) -> None:
    """Header, key, channel and origin reach whoever opens the messages, as they came."""
    with KafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        producer.send(topic, value=None, key=b"k", headers=[("ce_id", b"1"), ("empty", b"")]).get(10)
    seen = []

    class Opener(Opened):
        def batch(self, messages, positions):  # noqa: ANN001, ANN202
            seen.extend(messages)
            return super().batch(messages, positions)

    with reading(settings(kafka, topic)) as loop:
        loop.source._intake = Opener()
        loop.until(lambda: seen)
    (message,) = seen
    assert (message.body, message.key, message.channel, message.origin) == (None, b"k", topic, f"{topic}:0:0")
    assert message.headers == (("ce_id", b"1"), ("empty", b""))
    assert abs(message.arrival - time.time()) < 60

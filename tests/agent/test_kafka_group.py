"""The Kafka source in a group: partitions handed over, lost and found again, and a broker that goes away."""

from __future__ import annotations

import socket
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from kafka.admin import MemberToRemove

from agent.errors import ServiceError
from agent.sources.kafka.source import KafkaSource
from tests.agent.kafka_loop import QUICK, Opened, reading, settings, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agent.kafka_loop import Loop
    from tests.kafka_broker import Broker


@pytest.fixture
def topic(kafka: Broker) -> str:
    """A topic of three partitions."""
    name = f"group-{time.monotonic_ns()}"
    kafka.create_topic(name, 3)
    return name


def produce(broker: Broker, topic: str, numbers: range) -> None:
    """Spread over the partitions."""
    for partition in range(3):
        broker.produce(topic, [b"%d" % number for number in numbers if number % 3 == partition], partition)


@contextmanager
def running(loop: Loop) -> Iterator[Loop]:
    """Steps in a thread of its own, with a last checkpoint, as an agent that is asked to end."""
    stop = Event()
    errors: list[Exception] = []

    def run() -> None:
        try:
            while not stop.is_set():
                loop.step()
            loop.checkpoint()
        except ServiceError as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield loop
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
        assert not errors


def assigned(loop: Loop) -> set[str]:
    """The partitions that are read."""
    return {partition for _, partition in loop.source.status().lag}


def test_partitions_are_handed_over_at_exactly_the_settled_position(kafka: Broker, topic: str) -> None:
    """With members that join and leave, every record is counted once over all of them."""
    config = settings(kafka, topic)
    loops = []
    produce(kafka, topic, range(300))
    with ExitStack() as stack:
        first = stack.enter_context(running(stack.enter_context(reading(config, owner="one", size=7))))
        loops.append(first)
        wait_for(lambda: first.counted.total() >= 50)
        second = stack.enter_context(running(stack.enter_context(reading(config, owner="two", size=7))))
        loops.append(second)
        wait_for(lambda: assigned(first) and assigned(second) and not assigned(first) & assigned(second))
        produce(kafka, topic, range(300, 600))
        with reading(config, owner="three", size=7) as third, running(third):
            loops.append(third)
            wait_for(lambda: all(len(assigned(loop)) == 1 for loop in loops))
            produce(kafka, topic, range(600, 900))
            wait_for(lambda: third.counted.total() >= 50)
        wait_for(lambda: sum(loop.counted.total() for loop in loops) >= 900)
    union = sum((loop.counted for loop in loops), Counter[str]())
    assert union == Counter(map(str, range(900)))
    assert first.settled >= 1
    assert [loop.lost for loop in loops] == [0, 0, 0]


def test_loop_that_does_not_settle_in_time_loses_what_it_had(kafka: Broker, topic: str) -> None:
    """It is told, goes back, and the other member counts those records."""
    config = settings(kafka, topic)
    produce(kafka, topic, range(300))
    with reading(config, owner="one", timing=replace(QUICK, grace=0.5)) as slow:
        slow.count(300)
        with reading(config, owner="two") as other, running(other):
            wait_for(lambda: slow.source.status().events["lost"])
            assert not slow.checkpoint()
            slow.until(lambda: slow.lost)
            slow.until(lambda: assigned(slow) and assigned(other) and not assigned(slow) & assigned(other))
            slow.until(lambda: slow.counted.total() + other.counted.total() >= 300)
            assert slow.counted + other.counted == Counter(map(str, range(300)))


def test_nothing_is_delivered_between_a_loss_and_the_way_back(kafka: Broker, topic: str) -> None:
    """Partitions that are assigned meanwhile wait for the positions to which the loop goes back."""
    produce(kafka, topic, range(300))
    with reading(settings(kafka, topic), size=300) as loop:
        loop.count(100)
        assert loop.checkpoint()
        confirmed = dict(loop.positions)
        loop.count(300)
        loop.source._reader._desk.lose()  # as when the member is thrown out
        loop.source._reader._desk.assign([(topic, 0), (topic, 1), (topic, 2)])
        for _ in range(5):
            batch = loop.source.read()
            assert (batch.lost, batch.records, batch.positions) == (True, (), {})
        loop.until(lambda: loop.lost)
        assert loop.positions == confirmed
        loop.count(300)
        assert loop.counted == Counter(map(str, range(300)))


def test_partitions_added_to_a_topic_are_read(kafka: Broker, topic: str) -> None:
    """A rejoin that outlasts one poll is not forgotten: here the polls are shorter than any."""
    produce(kafka, topic, range(300))
    with reading(settings(kafka, topic), timing=replace(QUICK, poll=0.002, join=0.002)) as loop, running(loop):
        wait_for(lambda: loop.counted.total() == 300)
        with kafka.admin() as admin:
            admin.create_partitions({topic: 5})
        loop.source._reader._clients.cluster.request_update()
        wait_for(lambda: assigned(loop) == set("01234"))
        kafka.produce(topic, [b"more"], 4)
        wait_for(lambda: loop.counted["more"])
        assert loop.lost == 0


def test_static_member_that_is_replaced_ends(kafka: Broker, topic: str) -> None:
    """Two agents of one name would take turns for ever."""
    config = settings(kafka, topic, member="pod-0")
    produce(kafka, topic, range(30))
    with reading(config) as old:
        old.count(30)
        with reading(config) as new:
            new.count(30)
            with pytest.raises(ServiceError, match="same `member`"):
                old.until(lambda: not old.checkpoint() and False)


def test_broker_that_stops_answering_costs_nothing_but_time(own_kafka: Broker) -> None:
    """No commit is confirmed and nothing hangs; still in the group or thrown out, everything is counted once."""
    own_kafka.create_topic("t", 3)
    produce(own_kafka, "t", range(300))
    with reading(settings(own_kafka, "t", session=2.0)) as loop:
        loop.count(100)
        assert loop.checkpoint()
        loop.count(300)
        own_kafka.pause()
        begin = time.monotonic()
        assert not loop.checkpoint()
        assert time.monotonic() - begin < 2 * (QUICK.commit + 1.0) + 1.0
        while time.monotonic() < begin + 5.0:
            assert not loop.step().records
        assert not loop.source.status().stuck
        own_kafka.resume()
        # Whether the broker first reads what waited for it or first notices the silence is its own affair.
        loop.until(lambda: loop.lost or loop.checkpoint())
        loop.count(300)
        assert loop.counted == Counter(map(str, range(300)))
        loop.until(loop.checkpoint)


def test_member_that_is_thrown_out_goes_back_to_its_last_checkpoint(kafka: Broker, topic: str) -> None:
    """What it counted since is somebody else's, unless the partitions come back to it: then it counts anew."""
    produce(kafka, topic, range(300))
    with reading(settings(kafka, topic, session=1.5)) as loop:
        loop.count(100)
        assert loop.checkpoint()
        loop.count(300)
        with kafka.admin() as admin:
            (member,) = admin.describe_groups([topic])[topic]["members"]
            admin.remove_group_members(topic, [MemberToRemove(member_id=member["member_id"])])
        assert not loop.checkpoint()
        loop.until(lambda: loop.lost)
        assert loop.counted.total() == loop.confirmed[1].total() < 300
        loop.count(300)
        assert loop.counted == Counter(map(str, range(300)))
        assert loop.checkpoint()
        assert loop.source.status().events["lost"] == 3


def test_broker_that_is_killed_and_comes_back_is_read_again(own_kafka: Broker) -> None:
    """The source tries for ever; commits are confirmed again; closing takes seconds with the broker away."""
    own_kafka.create_topic("t", 3)
    produce(own_kafka, "t", range(150))
    with reading(settings(own_kafka, "t")) as loop:
        loop.count(150)
        own_kafka.kill()
        assert not loop.checkpoint()
        own_kafka.start()
        produce(own_kafka, "t", range(150, 300))
        loop.until(lambda: len(loop.counted) == 300)
        assert loop.counted == Counter(map(str, range(300)))
        loop.until(loop.checkpoint)
        own_kafka.pause()
        for _ in range(10):
            loop.step()
        begin = time.monotonic()
        loop.source.close()
        assert time.monotonic() - begin < 6.0


def test_no_broker_at_the_start_is_an_error_after_a_while() -> None:
    """Until then reads are empty, and a source that is closed meanwhile ends at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"

        class Nowhere:
            bootstrap = server

        config = settings(Nowhere(), "t")  # type: ignore[arg-type]
        with reading(config, timing=replace(QUICK, contact=1.0)) as loop:
            assert not loop.step().records
            assert not loop.source.status().assigned
            with pytest.raises(ServiceError, match="no broker let us in"):
                loop.until(lambda: False)
        source = KafkaSource(config, Opened(), 10, "ours", QUICK)
        source.seek({})
        source.read()
        begin = time.monotonic()
        source.close()
        assert time.monotonic() - begin < 6.0

"""Dead letters in a topic of a real broker: every byte comes back, and none counts before it is acknowledged."""

from __future__ import annotations

import gc
import json
import logging
import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from threading import active_count
from typing import TYPE_CHECKING, NamedTuple

import pytest
from kafka import KafkaConsumer, TopicPartition

from agent.errors import ServiceError
from agent.messages import DeadLetter, Message
from exporters.dead_letters.kafka import DeadLetterTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.messages import Headers
    from tests.kafka_broker import Broker

ROOT = Path(__file__).parents[2]
EVERY_BYTE = bytes(range(256))
PATIENCE = 10.0


class Kept(NamedTuple):
    """One message of the topic."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes]]


def letter(
    body: bytes | None, origin: str = "traffic:2:1041", headers: Headers = (), key: bytes | None = b"k"
) -> DeadLetter:
    """A letter of one message."""
    channel = "/events" if origin.startswith("http:") else "traffic"
    return DeadLetter(Message(body, origin, 1787306400.5, channel, headers, key), "not_json", items=3)


def topic_of(broker: Broker, configs: dict[str, str] | None = None) -> str:
    """A new topic with two partitions."""
    name = f"dead-{os.urandom(6).hex()}"
    broker.create_topic(name, 2, configs)
    return name


def kept(broker: Broker, topic: str) -> list[Kept]:
    """All that the topic holds."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    with closing(consumer):
        partitions = [TopicPartition(topic, number) for number in (0, 1)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found: list[Kept] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(500).values():
                found += [Kept(each.value, each.key, list(each.headers)) for each in records]
    return found


def held() -> tuple[int, int]:
    """How many threads and descriptors this process has."""
    return active_count(), len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def letters(kafka: Broker) -> Iterator[tuple[DeadLetterTopic, str]]:
    """A sink on the shared broker, and its topic."""
    topic = topic_of(kafka)
    with closing(DeadLetterTopic(topic, kafka.options(), PATIENCE)) as sink:
        yield sink, topic


def test_every_byte_comes_back(kafka: Broker, letters: tuple[DeadLetterTopic, str]) -> None:
    """Body, key and the sender's headers are as they were; ours say where it came from, why, how many and when."""
    sink, topic = letters
    headers = (("ce_id", b"1"), ("Twice", EVERY_BYTE), ("Twice", b""))
    sink.deliver([letter(EVERY_BYTE, headers=headers, key=EVERY_BYTE)])
    ours = [
        ("x-dlq-topic", b"traffic"),
        ("x-dlq-partition", b"2"),
        ("x-dlq-offset", b"1041"),
        ("x-dlq-reason", b"not_json"),
        ("x-dlq-items", b"3"),
        ("x-dlq-time", b"2026-08-21T10:00:00.500Z"),
    ]
    assert kept(kafka, topic) == [Kept(EVERY_BYTE, EVERY_BYTE, [*headers, *ours])]


def test_what_came_over_http_has_an_origin(kafka: Broker, letters: tuple[DeadLetterTopic, str]) -> None:
    """A message without topic and offset is named as a whole, even where its name looks like them."""
    sink, topic = letters
    sink.deliver([letter(b"x", "http:12345678:2")])
    names = dict(kept(kafka, topic)[0].headers)
    assert names["x-dlq-origin"] == b"http:12345678:2"
    assert not {"x-dlq-topic", "x-dlq-partition", "x-dlq-offset"} & names.keys()


def test_a_tombstone_stays_one(kafka: Broker, letters: tuple[DeadLetterTopic, str]) -> None:
    """No body stays no body; without a key too, which Kafka's client cannot send, a header says so."""
    sink, topic = letters
    sink.deliver([letter(None), letter(None, key=None), letter(b"", key=None)])
    found = [(each.value, each.key, dict(each.headers).get("x-dlq-body")) for each in kept(kafka, topic)]
    assert sorted(found, key=str) == sorted([(None, b"k", None), (b"", None, b"none"), (b"", None, None)], key=str)


def test_dying_often_does_not_pile_up(kafka: Broker, letters: tuple[DeadLetterTopic, str]) -> None:
    """A letter that is replayed and dies again says where it came from first and last, however often."""
    sink, topic = letters
    message = Message(
        b"x", "traffic:0:0", 0.0, "traffic", (("X-DLQ-Note", b"mine"), ("a", b"1"), ("a", b"2")), b"k"
    )
    for offset in range(4):
        sink.deliver([DeadLetter(message, f"reason_{offset}")])
        last = next(each for each in kept(kafka, topic) if dict(each.headers)["x-dlq-offset"] == b"%d" % offset)
        message = Message(last.value, f"again:0:{offset + 1}", 0.0, "again", tuple(last.headers), last.key)
    assert [value for name, value in message.headers if name == "x-dlq-reason"] == [b"reason_0", b"reason_3"]
    assert [value for name, value in message.headers if name == "x-dlq-topic"] == [b"traffic", b"again"]
    assert message.headers[:3] == (("X-DLQ-Note", b"mine"), ("a", b"1"), ("a", b"2"))
    assert len(message.headers) == 3 + 2 * 6


def test_a_thousand_letters_are_one_delivery(kafka: Broker, letters: tuple[DeadLetterTopic, str]) -> None:
    """Every one of many letters is there when the delivery returns, in the order of each key."""
    sink, topic = letters
    sink.deliver([letter(b"%d" % number, key=b"%d" % (number % 7)) for number in range(1000)])
    found = kept(kafka, topic)
    assert sorted(int(each.value or b"") for each in found) == list(range(1000))
    for key in range(7):
        of = [int(each.value or b"") for each in found if each.key == b"%d" % key]
        assert of == sorted(of)


def test_one_too_large_goes_without_its_body_and_holds_up_no_other(kafka: Broker) -> None:
    """Only a letter over the topic's limit loses its body, of which the digest and the size are kept."""
    topic = topic_of(kafka, {"max.message.bytes": "2000"})
    large = b"L" * 5000
    mixed = [letter(b"%d" % number) for number in range(50)]
    mixed.insert(20, letter(large, "traffic:0:7", headers=(("a", b"1"),)))
    with closing(DeadLetterTopic(topic, kafka.options(), PATIENCE)) as sink:
        sink.deliver(mixed)
        sink.deliver([letter(b"after")])
    found = kept(kafka, topic)
    (reduced,) = [each for each in found if ("x-dlq-body", b"omitted") in each.headers]
    assert json.loads(reduced.value or b"") == {"sha256": sha256(large).hexdigest(), "bytes": 5000}
    assert reduced.key == b"k"
    assert {("a", b"1"), ("x-dlq-offset", b"7")} <= set(reduced.headers)
    rest = sorted(each.value or b"" for each in found if each is not reduced)
    assert rest == sorted([b"after", *(b"%d" % number for number in range(50))])


def test_headers_or_a_key_too_large_go_as_well(kafka: Broker) -> None:
    """A letter whose headers alone are over the limit still arrives, as what is known of it."""
    topic = topic_of(kafka, {"max.message.bytes": "2000"})
    with closing(DeadLetterTopic(topic, kafka.options(), PATIENCE)) as sink:
        sink.deliver([letter(b"x", headers=(("large", b"h" * 3000),)), letter(b"y", key=b"k" * 3000)])
    found = kept(kafka, topic)
    assert len(found) == 2
    for each in found:
        assert each.key is None
        assert {"x-dlq-body", "x-dlq-key", "x-dlq-headers", "x-dlq-offset"} <= dict(each.headers).keys()
        assert "large" not in dict(each.headers)


def test_what_no_broker_would_take_is_not_even_sent(kafka: Broker, letters: tuple[DeadLetterTopic, str]) -> None:
    """A body beyond the largest request a broker reads is left out at once, instead of being tried for ever."""
    sink, topic = letters
    sink.deliver([letter(bytes(65 << 20))])
    assert json.loads(kept(kafka, topic)[0].value or b"")["bytes"] == 65 << 20


def test_a_topic_for_which_all_is_too_large_is_a_plain_error(kafka: Broker) -> None:
    """Where not even the facts fit, the error names the topic's setting."""
    topic = topic_of(kafka, {"max.message.bytes": "100"})
    with (
        closing(DeadLetterTopic(topic, kafka.options(), PATIENCE)) as sink,
        pytest.raises(ServiceError, match=r"larger than the topic allows .*max\.message\.bytes"),
    ):
        sink.deliver([letter(b"x")])


def test_a_topic_that_is_not_there_is_a_plain_error(kafka: Broker) -> None:
    """The error names topic, servers and setting, in time; the sink works once the topic is there."""
    topic = f"missing-{os.urandom(6).hex()}"
    with closing(DeadLetterTopic(topic, kafka.options(), 1.0)) as sink:
        started = time.monotonic()
        with pytest.raises(ServiceError) as raised:
            sink.deliver([letter(b"secret")])
        assert time.monotonic() - started < 3
        assert str(raised.value) == (
            f"1 dead letters could not be kept in the topic {topic} of {kafka.bootstrap}: the topic cannot be "
            "found (KafkaTimeoutError). Create it, correct its name in `dead_letters.topic`, or allow the "
            "agent to see it."
        )
        kafka.create_topic(topic, 2)
        sink.deliver([letter(b"x")])
    assert len(kept(kafka, topic)) == 1


def test_a_broker_that_does_not_answer_is_a_plain_error_in_time(own_kafka: Broker) -> None:
    """Unacknowledged letters are an error within the timeout; once the broker goes on, so does the sink."""
    topic = topic_of(own_kafka)
    with closing(DeadLetterTopic(topic, own_kafka.options(), 2.0)) as sink:
        sink.deliver([letter(b"before")])
        own_kafka.pause()
        for trouble in ("did not confirm in time", "no broker can be used"):
            started = time.monotonic()
            with pytest.raises(ServiceError, match=trouble):
                sink.deliver([letter(b"during")])
            assert time.monotonic() - started < 4
        own_kafka.resume()
        sink.deliver([letter(b"after")])
    found = [each.value for each in kept(own_kafka, topic)]
    assert {b"before", b"after"} <= set(found)


def test_a_killed_broker_comes_back(own_kafka: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """What was acknowledged survives the broker's end, and the sink finds the broker again by itself."""
    # kafka-python leaves a socket behind for each connection that is refused; the error it logs would hold it.
    caplog.set_level(logging.CRITICAL, "kafka")
    topic = topic_of(own_kafka)
    with closing(DeadLetterTopic(topic, own_kafka.options(), 2.0)) as sink:
        sink.deliver([letter(b"before")])
        own_kafka.kill()
        with pytest.raises(ServiceError):
            sink.deliver([letter(b"during")])
        own_kafka.start()
        sink.deliver([letter(b"after")])
    assert {b"before", b"after"} <= {each.value for each in kept(own_kafka, topic)}
    gc.collect()


def test_a_wrong_password_is_a_plain_error(secure_kafka: Broker) -> None:
    """An agent that is not let in is told which settings to look at, and never shows its password."""
    options = secure_kafka.options("SASL_PLAINTEXT", "PLAIN") | {"sasl_plain_password": "wrong-secret"}
    with (
        closing(DeadLetterTopic("dead", options, 1.0)) as sink,
        pytest.raises(ServiceError, match=r"no broker can be used .*`sasl`") as raised,
    ):
        sink.deliver([letter(b"x")])
    assert "wrong-secret" not in str(raised.value)


def test_it_works_over_tls_with_a_password(secure_kafka: Broker) -> None:
    """The client's arguments reach the connection."""
    topic = topic_of(secure_kafka)
    options = secure_kafka.options("SASL_SSL", "SCRAM-SHA-256")
    with closing(DeadLetterTopic(topic, options, PATIENCE)) as sink:
        sink.deliver([letter(b"x")])
    assert len(kept(secure_kafka, topic)) == 1


def test_it_connects_at_the_first_letter_and_leaves_nothing_behind(kafka: Broker) -> None:
    """Before a letter there is no connection; after closing there is neither a thread nor a descriptor more."""
    topic = topic_of(kafka)
    gc.collect()
    before = held()
    for _ in range(3):
        sink = DeadLetterTopic(topic, kafka.options(), PATIENCE)
        sink.deliver([])
        assert held() == before
        sink.deliver([letter(b"x")])
        sink.close()
        sink.close()
    assert held() == before


def test_a_server_that_says_nothing_leaves_nothing_behind() -> None:
    """A port that accepts and is silent costs the timeout, an error, and no descriptor."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        before = held()
        sink = DeadLetterTopic("dead", {"bootstrap_servers": f"127.0.0.1:{silent.getsockname()[1]}"}, 1.0)
        for _ in range(3):
            with pytest.raises(ServiceError, match="no broker can be used"):
                sink.deliver([letter(b"x")])
        assert held() == before


def test_the_documented_replay_works(kafka: Broker, letters: tuple[DeadLetterTopic, str]) -> None:
    """The script of docs/RECORDS.md sends the letters of one reason again, unchanged, and none of them twice."""
    sink, topic = letters
    traffic = topic_of(kafka)
    wanted, other = letter(EVERY_BYTE, key=EVERY_BYTE), DeadLetter(letter(b"other").message, "no_text")
    sink.deliver([wanted, other, letter(None, key=None)])
    section = (ROOT / "docs" / "RECORDS.md").read_text(encoding="utf-8").split("## Dead letters")[1]
    script = section.split("```python\n")[1].split("```")[0]
    for mine, documented in {
        kafka.bootstrap: "kafka:9092",
        f'"{topic}"': '"traffic-dead"',
        f'"{traffic}"': '"traffic"',
        'b"not_json"': 'b"unknown_label"',
        "2_000": "10_000",
        topic: "replay-",
    }.items():
        assert documented in script
        script = script.replace(documented, mine)
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    (found,) = kept(kafka, traffic)
    assert (found.value, found.key) == (EVERY_BYTE, EVERY_BYTE)
    assert dict(found.headers)["x-dlq-offset"] == b"1041"

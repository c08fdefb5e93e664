"""The broker of the tests is a real one: it keeps, refuses and comes back as Kafka does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from agent.errors import ArtefactError, ServiceError
from tests import kafka_jars
from tests.kafka_broker import HOST, Broker
from tests.kafka_security import MECHANISMS, UnsecuredToken

if TYPE_CHECKING:
    from collections.abc import Iterator

SASL = [(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]


def read(broker: Broker, topic: str) -> list[tuple[int, bytes]]:
    """Offset and value of every record of the only partition."""
    partition = TopicPartition(topic, 0)
    with closing(KafkaConsumer(**broker.options(), auto_offset_reset="earliest")) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        return list(_records(consumer, partition, end))


def _records(consumer: KafkaConsumer, partition: TopicPartition, end: int) -> Iterator[tuple[int, bytes]]:
    deadline = time.monotonic() + 10
    while consumer.position(partition) < end and time.monotonic() < deadline:
        for record in consumer.poll(timeout_ms=200).get(partition, ()):
            yield record.offset, record.value


def connect(options: dict[str, object]) -> list[str]:
    """The topics that a client with these options is shown."""
    with KafkaAdminClient(**options, bootstrap_timeout_ms=500, request_timeout_ms=3000) as admin:
        return admin.list_topics()


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def test_a_record_written_is_read(kafka: Broker) -> None:
    """What a producer wrote, a consumer reads, at the offset the producer was told."""
    kafka.create_topic("read-back")
    assert kafka.produce("read-back", [b"first", b"second"]) == [0, 1]
    assert read(kafka, "read-back") == [(0, b"first"), (1, b"second")]


def test_no_topic_is_made_by_asking_for_it(kafka: Broker) -> None:
    """A mistyped topic stays unknown, as on a production broker."""
    with closing(KafkaConsumer(**kafka.options())) as consumer:
        assert not consumer.partitions_for_topic("mistyped")
    assert "mistyped" not in connect(kafka.options())


def test_a_topic_made_again_starts_at_nothing(kafka: Broker) -> None:
    """Deleted and created under the same name, a topic holds none of its records and other partitions."""
    kafka.create_topic("again", 1)
    kafka.produce("again", [b"old", b"older"])
    kafka.delete_topic("again")
    kafka.create_topic("again", 2)
    assert kafka.produce("again", [b"new"], partition=0) == [0]
    assert read(kafka, "again") == [(0, b"new")]


def test_data_and_address_outlive_the_process(own_kafka: Broker) -> None:
    """A broker restarted in good order, and one killed, come back where they were, with the records they had."""
    bootstrap, first = own_kafka.bootstrap, own_kafka.pid
    own_kafka.create_topic("kept")
    own_kafka.produce("kept", [b"before"])
    own_kafka.restart()
    own_kafka.produce("kept", [b"between"])
    own_kafka.kill()
    own_kafka.start()
    assert (own_kafka.bootstrap, own_kafka.pid == first) == (bootstrap, False)
    assert read(own_kafka, "kept") == [(0, b"before"), (1, b"between")]


def test_a_paused_broker_is_silent_and_a_resumed_one_answers(own_kafka: Broker) -> None:
    """While it is paused no request ends; afterwards it is the same broker."""
    own_kafka.create_topic("paused")
    own_kafka.pause()
    with pytest.raises(KafkaTimeoutError):
        KafkaAdminClient(**own_kafka.options(), bootstrap_timeout_ms=300)
    own_kafka.resume()
    assert own_kafka.produce("paused", [b"after"]) == [0]


def test_a_paused_broker_can_be_stopped(own_kafka: Broker) -> None:
    """Stopping does not wait for a process that cannot hear."""
    own_kafka.pause()
    started = time.monotonic()
    own_kafka.stop()
    assert time.monotonic() - started < 10


def test_no_broker_outlives_a_killed_test_run(kafka: Broker, tmp_path: Path) -> None:
    """The broker of a process that is killed, started from a thread that has ended, dies with that process."""
    assert kafka.pid
    script = """
import pathlib, sys, threading, time
from tests.kafka_broker import Broker
broker = Broker(pathlib.Path(sys.argv[1]))
starter = threading.Thread(target=broker.start)
starter.start()
starter.join()
time.sleep(0.5)
print(broker.pid if broker._process.poll() is None else "dead", flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as run:
        assert run.stdout
        pid = int(run.stdout.readline())
        assert alive(pid)
        os.kill(run.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


def test_a_broker_that_cannot_start_shows_its_log(kafka: Broker, tmp_path: Path) -> None:
    """The error ends with what Kafka said, here that it could not have its port."""
    assert kafka.pid
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        with pytest.raises(ServiceError, match=r"ended with code 1; the end of .*broker\.log(.|\n)*in use"):
            Broker(tmp_path, port=taken.getsockname()[1]).start()


@pytest.mark.parametrize(("listener", "mechanism"), SASL)
def test_the_right_password_or_token_is_let_in(secure_kafka: Broker, listener: str, mechanism: str) -> None:
    """Every mechanism works on every SASL listener."""
    assert isinstance(connect(secure_kafka.options(listener, mechanism)), list)


@pytest.mark.parametrize(("listener", "mechanism"), SASL)
def test_a_wrong_password_or_token_is_refused(secure_kafka: Broker, listener: str, mechanism: str) -> None:
    """A password that is not the user's, and a token that has expired, do not get in."""
    wrong = {"sasl_oauth_token_provider": UnsecuredToken("agent", seconds=-60.0)}
    if mechanism != "OAUTHBEARER":
        wrong = {"sasl_plain_password": "wrong"}
    said = len(secure_kafka.log.read_text(encoding="utf-8"))
    with pytest.raises(KafkaTimeoutError):
        connect(secure_kafka.options(listener, mechanism) | wrong)
    assert "Failed authentication" in secure_kafka.log.read_text(encoding="utf-8")[said:]


@pytest.mark.parametrize("listener", ["SSL", "MUTUAL_TLS"])
def test_certificates_let_a_client_in(secure_kafka: Broker, listener: str) -> None:
    """A client that trusts the broker's CA, and shows its own certificate where it is asked for, is served."""
    assert isinstance(connect(secure_kafka.options(listener)), list)


def test_a_broker_of_an_unknown_authority_is_refused(secure_kafka: Broker) -> None:
    """Without the test's CA the client does not talk to the broker."""
    options = secure_kafka.options("SSL")
    del options["ssl_cafile"]
    said = len(secure_kafka.log.read_text(encoding="utf-8"))
    with pytest.raises(KafkaTimeoutError):
        connect(options)
    assert "SSL handshake failed" in secure_kafka.log.read_text(encoding="utf-8")[said:]


def test_a_client_without_a_certificate_is_refused(secure_kafka: Broker) -> None:
    """The listener for mutual TLS asks for a certificate."""
    options = secure_kafka.options("MUTUAL_TLS")
    del options["ssl_certfile"], options["ssl_keyfile"]
    said = len(secure_kafka.log.read_text(encoding="utf-8"))
    with pytest.raises(KafkaTimeoutError):
        connect(options)
    assert "SSL handshake failed" in secure_kafka.log.read_text(encoding="utf-8")[said:]


def test_jars_that_were_changed_are_fetched_again(kafka: Broker, tmp_path: Path) -> None:
    """A spoilt file in the cache is never run."""
    assert kafka.pid
    spoilt = kafka_jars.jars(tmp_path)[0]
    good = spoilt.read_bytes()
    spoilt.write_bytes(b"something else")
    assert kafka_jars.jars(tmp_path)[0].read_bytes() == good


def test_other_jars_than_expected_are_not_kept(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the repository serves under a name must be the file whose hash is committed."""
    assert kafka.pid
    wanted = kafka_jars._wanted() | {"slf4j-api-1.7.36.jar": "0" * 64}
    monkeypatch.setattr(kafka_jars, "_wanted", lambda: wanted)
    with pytest.raises(ArtefactError, match=r"jars\.sha256"):
        kafka_jars.jars(tmp_path)
    assert not list(tmp_path.glob("kafka-*"))

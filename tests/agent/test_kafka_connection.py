"""How the Kafka source is let in, and that what lets it in is never shown."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from kafka import TopicPartition

from agent.cli.outlets import open_letters
from agent.config import RunConfig
from agent.errors import ServiceError, UsageError
from agent.source_config import KafkaSourceConfig, SaslConfig, TlsConfig
from agent.sources.kafka.absent_topics import AbsentTopics
from agent.sources.kafka.client_logs import EVERY, ClientLogs
from agent.sources.kafka.connection import client_arguments
from agent.sources.kafka.reach import reach
from tests.agent.kafka_loop import QUICK, reading, settings
from tests.kafka_security import UnsecuredToken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka_broker import Broker

WORD = "a-word-that-nobody-may-see"


@pytest.fixture
def files(tmp_path: Path, secure_kafka: Broker) -> Path:
    """Where the secrets are, each as an editor leaves it."""
    assert secure_kafka.security
    (tmp_path / "password").write_text(f"{secure_kafka.security.password}\n")
    (tmp_path / "token").write_text(f"{UnsecuredToken(secure_kafka.security.user).token()}\n")
    (tmp_path / "wrong").write_text(f"{WORD}\n")
    return tmp_path


def secured(broker: Broker, listener: str, topic: str, sasl: SaslConfig | None, tls: TlsConfig | None):  # noqa: ANN201
    """The configuration for one of the secure listeners."""
    config = settings(broker, topic, sasl=sasl, tls=tls)
    return config.model_copy(update={"servers": (broker.bootstrap_of(listener),)})


def found(config: KafkaSourceConfig, **patience: float) -> str:
    """What a check says of the topics of a source."""
    return reach(config, config.topics, "source.kafka", **patience)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_reads_with_each_login_over_tls(secure_kafka: Broker, files: Path, mechanism: str) -> None:
    """Password, challenge and bearer token all come from files."""
    assert secure_kafka.security
    topic = f"login-{mechanism.lower()}"
    secure_kafka.create_topic(topic)
    secure_kafka.produce(topic, [b"1", b"2"])
    secret = (
        {"token_file": files / "token"} if mechanism == "OAUTHBEARER" else {"password_file": files / "password"}
    )
    user = {} if mechanism == "OAUTHBEARER" else {"username": secure_kafka.security.user}
    sasl = SaslConfig(mechanism=mechanism, **secret, **user)
    config = secured(secure_kafka, "SASL_SSL", topic, sasl, TlsConfig(ca=secure_kafka.security.ca))
    assert found(config) == f"{topic}: 1 partition"
    with reading(config) as loop:
        loop.count(2)
        assert loop.checkpoint()


def test_reads_with_a_certificate_of_its_own(secure_kafka: Broker) -> None:
    """Both sides show a certificate."""
    security = secure_kafka.security
    assert security
    secure_kafka.create_topic("mutual")
    secure_kafka.produce("mutual", [b"1"])
    tls = TlsConfig(ca=security.ca, certificate=security.client_certificate, key=security.client_key)
    with reading(secured(secure_kafka, "MUTUAL_TLS", "mutual", None, tls)) as loop:
        loop.count(1)


def test_wrong_password_ends_the_source_and_is_never_shown(
    secure_kafka: Broker, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what to check; neither it nor any log holds the password."""
    sasl = SaslConfig(mechanism="PLAIN", username="agent", password_file=files / "wrong")
    config = secured(secure_kafka, "SASL_PLAINTEXT", "t", sasl, None)
    quick = replace(QUICK, contact=1.0)
    with reading(config, timing=quick) as loop, pytest.raises(ServiceError, match=r"check .*`sasl`") as caught:
        loop.until(lambda: False)
    with pytest.raises(ServiceError, match=r"check .*`sasl`"):
        found(config, patience=1.0)
    shown = capsys.readouterr()
    assert WORD not in shown.out + shown.err + str(caught.value) + repr(config)


def test_broker_with_a_certificate_we_do_not_trust_is_refused(secure_kafka: Broker) -> None:
    """The system's authorities did not sign it; the one that did is believed only for the names it wrote."""
    assert secure_kafka.security
    port = secure_kafka.ports["SSL"]

    def greet(tls: TlsConfig, name: str) -> None:
        context = client_arguments(config_of(tls=tls))["ssl_context"]
        with socket.create_connection(("127.0.0.1", port), timeout=10) as bare:
            context.wrap_socket(bare, server_hostname=name).close()

    greet(TlsConfig(ca=secure_kafka.security.ca), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        greet(TlsConfig(ca=secure_kafka.security.ca), "other.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        greet(TlsConfig(), "localhost")


def test_reach_names_what_is_missing(kafka: Broker) -> None:
    """A topic that is not there is a mistake in the configuration; a broker that is not there is not."""
    kafka.create_topic("reach-one", 3)
    kafka.create_topic("reach-two", 1)
    both = settings(kafka, "reach-one").model_copy(update={"topics": ("reach-one", "reach-two")})
    assert found(both) == "reach-one: 3 partitions, reach-two: 1 partition"
    with pytest.raises(UsageError, match=r"source.kafka.topics: reach-none: no such topic"):
        found(settings(kafka, "reach-none"))
    with pytest.raises(UsageError, match=r"dead_letters.topic: reach-none: no such topic"):
        reach(both, ["reach-none"], "dead_letters")
    with pytest.raises(UsageError, match=r"dead_letters.connection.tls.ca: /absent: no such file"):
        reach(both.model_copy(update={"tls": TlsConfig(ca="/absent")}), ["reach-one"], "dead_letters")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = both.model_copy(update={"servers": (f"127.0.0.1:{silent.getsockname()[1]}",)})
        with pytest.raises(ServiceError, match="no broker let us in"):
            found(away, patience=0.5)


def config_of(**parts: object) -> KafkaSourceConfig:
    """A configuration with these parts."""
    return KafkaSourceConfig(servers=("localhost:9092",), topics=("t",), **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sasl", "tls", "protocol"),
    [(False, False, "PLAINTEXT"), (False, True, "SSL"), (True, False, "SASL_PLAINTEXT"), (True, True, "SASL_SSL")],
)
def test_protocol_follows_from_what_is_configured(*, sasl: bool, tls: bool, protocol: str, tmp_path: Path) -> None:
    """The names kafka-python gives them."""
    (tmp_path / "password").write_text(WORD)
    login = SaslConfig(mechanism="PLAIN", username="agent", password_file=tmp_path / "password")
    arguments = client_arguments(config_of(sasl=login if sasl else None, tls=TlsConfig() if tls else None))
    assert arguments["security_protocol"] == protocol
    assert arguments["bootstrap_servers"] == ["localhost:9092"]


def test_host_names_are_verified() -> None:
    """A certificate of another host is not enough."""
    context = client_arguments(config_of(tls=TlsConfig()))["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_secret_is_masked_wherever_it_is_printed_and_whole_where_it_is_sent(tmp_path: Path) -> None:
    """One newline at the end is the editor's; everything else is the secret."""
    (tmp_path / "password").write_text(f" {WORD}\n\n")
    sasl = SaslConfig(mechanism="PLAIN", username="agent", password_file=tmp_path / "password")
    arguments = client_arguments(config_of(sasl=sasl))
    secret = arguments["sasl_plain_password"]
    assert WORD not in f"{arguments} {arguments!r} {secret} {secret!r} {'%s' % secret}"  # noqa: UP031
    assert secret.encode() == f" {WORD}\n".encode()


def test_token_is_read_anew_for_each_connection(tmp_path: Path) -> None:
    """Whoever renews it replaces the file."""
    path = tmp_path / "token"
    path.write_text("one\n")
    sasl = SaslConfig(mechanism="OAUTHBEARER", token_file=path)
    provider = client_arguments(config_of(sasl=sasl))["sasl_oauth_token_provider"]
    assert provider.token() == "one"
    path.write_text("two\n")
    assert provider.token() == "two"
    path.unlink()
    with pytest.raises(ServiceError, match="the token cannot be read"):
        provider.token()


@pytest.mark.parametrize("key", ["ca", "certificate", "key", "key_password_file"])
def test_missing_tls_file_is_named(tmp_path: Path, key: str) -> None:
    """With the key of the configuration that names it."""
    (tmp_path / "there").write_text("x")
    files = dict.fromkeys(("ca", "certificate", "key", "key_password_file"), tmp_path / "there")
    files[key] = tmp_path / "absent"
    with pytest.raises(UsageError, match=rf"dead_letters.connection.tls.{key}: .*absent: no such file"):
        client_arguments(config_of(tls=TlsConfig(**files)), "dead_letters.connection")


@pytest.mark.parametrize("key", ["password_file", "token_file"])
def test_missing_or_empty_secret_is_named(tmp_path: Path, key: str) -> None:
    """An empty password would be tried on the broker otherwise."""
    mechanism = "OAUTHBEARER" if key == "token_file" else "PLAIN"
    user = None if key == "token_file" else "agent"
    sasl = SaslConfig.model_validate({"mechanism": mechanism, "username": user, key: tmp_path / "secret"})
    with pytest.raises(UsageError, match=rf"source.kafka.sasl.{key}: .*: no such file"):
        client_arguments(config_of(sasl=sasl))
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(UsageError, match=rf"source.kafka.sasl.{key}: .* is empty"):
        client_arguments(config_of(sasl=sasl))


def test_certificates_that_are_none_are_named(tmp_path: Path) -> None:
    """Which file, and what it should have been."""
    (tmp_path / "text").write_text("not a certificate")
    with pytest.raises(UsageError, match=r"tls.ca: .* holds no certificates in PEM form"):
        client_arguments(config_of(tls=TlsConfig(ca=tmp_path / "text")))
    with pytest.raises(UsageError, match=r"tls.certificate: .* no PEM certificate with its key"):
        client_arguments(config_of(tls=TlsConfig(certificate=tmp_path / "text", key=tmp_path / "text")))


Said = tuple[logging.Logger, list[float], list[MutableMapping[str, Any]]]


@pytest.fixture
def said() -> Iterator[Said]:
    """A logger as kafka-python's, the clock, and the lines that come of it."""
    now = [0.0]
    logger = logging.Logger("kafka.test")  # noqa: LOG001 - not in the tree of loggers
    handler = ClientLogs(lambda: now[0])
    handler.names.add("traffic")
    logger.addHandler(handler)
    with structlog.testing.capture_logs() as lines:
        yield logger, now, lines


def test_client_log_says_each_thing_seldom_and_no_contents(said: Said) -> None:
    """One line an outage; what kafka-python fills into its messages stays out, but for the kind of error."""
    logger, now, lines = said
    for moment in (0.0, 1.0, EVERY + 1):
        now[0] = moment
        logger.warning("failed: %s for %s", ValueError(WORD), WORD)
    logger.info("not worth a line")
    assert [line["said"] for line in lines] == ["failed: ValueError for …"] * 2
    assert lines[0]["errors"] == ["ValueError"]
    assert WORD not in str(lines)


def test_client_log_tells_what_is_no_secret(said: Said) -> None:
    """Topics of the configuration, partitions, numbers and kinds of error."""
    logger, _, lines = said
    logger.warning("%s of %s throttled by %s (%d ms)", TopicPartition("traffic", 2), "traffic", WORD, 7)
    logger.error("node %s: %s", WORD, TimeoutError)
    assert [line["said"] for line in lines] == [
        "traffic:2 of traffic throttled by … (7 ms)",
        "node …: TimeoutError",
    ]


def test_client_log_leaves_out_what_would_say_nothing(said: Said) -> None:
    """Neither an empty line nor one whose words may hold anything; what we say ourselves is not said twice."""
    logger, _, lines = said
    logger.warning("%s: socket disconnected", WORD)
    logger.warning("%s after %d ms", WORD, WORD)
    logger.warning(WORD)
    logger.warning("%(word)s", {"word": WORD})
    logger.error("Topic %s not found in cluster metadata", "traffic")
    assert lines == []
    try:
        int(WORD)
    except ValueError:
        logger.exception(WORD)
    (line,) = lines
    assert (line["said"], line["errors"]) == ("test_client_log_leaves_out_what_would_say_nothing", ["ValueError"])


def test_client_says_nothing_to_who_tells_what_it_found(capfd: pytest.CaptureFixture[str]) -> None:
    """A check of what cannot be reached has its own line; afterwards the client is heard again."""
    logger = logging.getLogger("kafka.client")
    before = logging.getLogger("kafka").level
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    config = config_of().model_copy(update={"servers": (f"127.0.0.1:{port}",)})
    with pytest.raises(ServiceError, match="no broker let us in"):
        found(config, patience=0.5)
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("kafka").level == before
    assert logger.isEnabledFor(logging.WARNING)


def test_topic_that_is_not_there_is_told_once_and_once_more_when_it_is() -> None:
    """Each of the topics on its own."""
    topics = AbsentTopics()
    with structlog.testing.capture_logs() as lines:
        for absent in ({"b", "a"}, {"a", "b"}, {"b"}, set(), {"b"}):
            topics.tell(absent)
    missing, found = "kafka_topic_missing", "kafka_topic_found"
    assert [(line["event"], line["topic"]) for line in lines] == [
        *((missing, "a"), (missing, "b"), (found, "a"), (found, "b"), (missing, "b"))
    ]
    assert [line["log_level"] for line in lines] == ["warning", "warning", "info", "info", "warning"]


@pytest.mark.parametrize("own", [True, False])
def test_secret_of_dead_letters_is_named_by_the_key_it_has(tmp_path: Path, *, own: bool) -> None:
    """Their own connection, or the one of the source that they share."""
    connection = {"servers": ["localhost:9092"], "tls": {"ca": str(tmp_path / "absent")}}
    letters = {"topic": "dead"} | ({"connection": connection} if own else {})
    source = {"kafka": {"topics": ["t"], "servers": ["localhost:9092"]} | ({} if own else connection)}
    config = RunConfig.model_validate({"reference": "r", "source": source, "dead_letters": letters})
    where = "dead_letters.connection" if own else "source.kafka"
    with pytest.raises(UsageError, match=rf"^{where}.tls.ca: .*absent: no such file"):
        open_letters(config)

"""A real Apache Kafka broker of one node, on free ports of this machine, its data in a directory of the caller.

It is killed by the system when this process ends, however it ends, so that no test run leaves one behind.
"""

from __future__ import annotations

import base64
import shutil
import signal
import socket
import subprocess
import time
import uuid
from typing import TYPE_CHECKING, Self

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError

from agent.errors import ServiceError
from tests.children import HOST, free_ports, spawn
from tests.kafka_jars import jars
from tests.kafka_security import Security

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
REQUEST_MS = 10_000
SASL_LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")
PROTOCOLS = {name: name for name in ("PLAINTEXT", "SSL", *SASL_LISTENERS)} | {
    "MUTUAL_TLS": "SSL",
    "CONTROLLER": "PLAINTEXT",
}
# Small and quick to start rather than quick to run.
JAVA_OPTIONS = (
    *("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    # Hundreds of lines at every start, which would push what matters out of the end of the log.
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
)
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # Groups form and lose their members within a test's patience.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    # What is too old or deleted is gone within a second or two.
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    # A broker that was killed may come back once its last session has expired.
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


class Broker:
    """Started by ``start`` or by ``with``; what breaks it (``kill``, ``pause``) is for the tests.

    ServiceError: Java, Maven or the network is missing, or the broker does not come up; the message shows the end
    of its log.
    """

    def __init__(self, directory: Path, *, secure: bool = False, port: int | None = None) -> None:
        self.directory = directory
        self.log = directory / "broker.log"
        self.security = Security(directory / "security") if secure else None
        names = PROTOCOLS if secure else ("PLAINTEXT", "CONTROLLER")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        if port is not None:
            self.ports["PLAINTEXT"] = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the listener that asks for nothing."""
        return self.bootstrap_of("PLAINTEXT")

    @property
    def pid(self) -> int | None:
        """The process of the running broker."""
        return self._process.pid if self._process else None

    def bootstrap_of(self, listener: str) -> str:
        """``host:port`` of any of ``ports``."""
        return f"{HOST}:{self.ports[listener]}"

    def options(self, listener: str = "PLAINTEXT", mechanism: str | None = None) -> dict[str, object]:
        """The options with which any client of kafka-python is let in."""
        options = self.security.client_options(listener, mechanism) if self.security else {}
        return {"bootstrap_servers": self.bootstrap_of(listener), **options}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, on the data and the ports it had before, and wait until it answers."""
        if self._process is not None:
            raise ValueError("the broker is already running")
        java = [_java(), *JAVA_OPTIONS, "-cp", ":".join(map(str, jars()))]
        properties = self.directory / "server.properties"
        if not properties.exists():
            self._format(java, properties)
        self._process = spawn([*java, "kafka.Kafka", properties], self.log)
        self._wait_until_ready()

    def stop(self) -> None:
        """Ask it to end (SIGTERM), and make it (SIGKILL) where it does not; nothing where it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        # A paused process would never see it.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop it in its tracks: its connections stay open and nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after ``pause``."""
        self._running().send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """End it in good order and start it again."""
        self.stop()
        self.start()

    def wait(self) -> None:
        """Wait until the process ends by itself."""
        self._running().wait()

    def admin(self) -> KafkaAdminClient:
        """A client that may do everything; the caller closes it."""
        return KafkaAdminClient(
            bootstrap_servers=self.bootstrap,
            request_timeout_ms=REQUEST_MS,
            bootstrap_timeout_ms=REQUEST_MS,
        )

    def create_topic(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        """Create a topic and wait until each of its partitions has a leader."""
        topic = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
        with self.admin() as admin:
            admin.create_topics({name: topic}, wait_for_metadata=True)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker no longer lists it."""
        deadline = time.monotonic() + REQUEST_MS / 1000
        with self.admin() as admin:
            admin.delete_topics([name])
            while name in admin.list_topics():
                if time.monotonic() > deadline:
                    raise ServiceError(f"the broker still lists the topic {name}")
                time.sleep(0.02)

    def produce(self, topic: str, values: Iterable[bytes], partition: int | None = None) -> list[int]:
        """Write the values and return their offsets, once the broker has them all."""
        with KafkaProducer(bootstrap_servers=self.bootstrap, request_timeout_ms=REQUEST_MS) as producer:
            sent = [producer.send(topic, value, partition=partition) for value in values]
            return [future.get(timeout=REQUEST_MS / 1000).offset for future in sent]

    def _format(self, java: list[str], properties: Path) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.security:
            self.security.write()
        draft = properties.with_suffix(".draft")
        draft.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()), encoding="utf-8")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            f"--cluster-id={cluster}",  # one word: it may begin with a dash
            "--config",
            str(draft),
        ]
        users = self.security.format_options() if self.security else []
        done = subprocess.run([*java, *tool, *users], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServiceError(f"Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")
        # Named only now: a formatting that failed is done again.
        draft.rename(properties)

    def _settings(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items())
        security = self.security.properties(SASL_LISTENERS) if self.security else {}
        return (
            PROPERTIES
            | security
            | {
                "listeners": listeners,
                "listener.security.protocol.map": ",".join(f"{name}:{PROTOCOLS[name]}" for name in self.ports),
                "controller.quorum.bootstrap.servers": self.bootstrap_of("CONTROLLER"),
                "log.dirs": str(self.directory / "data"),
            }
        )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            code = self._running().poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                ended = "does not answer" if code is None else f"ended with code {code}"
                raise ServiceError(f"the broker {ended}; the end of {self.log}:\n{self.end_of_log()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        # A bare connection first: kafka-python logs every attempt that fails.
        try:
            socket.create_connection((HOST, self.ports["PLAINTEXT"]), timeout=1.0).close()
        except OSError:
            return False
        try:
            with self.admin() as admin:
                # A broker that has not yet joined its own controller is not in the list.
                return bool(admin.describe_cluster()["brokers"])
        except KafkaError:
            return False

    def end_of_log(self, lines: int = 150) -> str:
        """What the broker said last."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ValueError("the broker is not running")
        return self._process


def _java() -> str:
    found = shutil.which("java")
    if found is None:
        raise ServiceError("java is not on PATH (Debian package openjdk-17-jre-headless)")
    return found

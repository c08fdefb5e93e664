"""Traffic for the intake benchmark, sent from a process of its own: to a topic, or over HTTP.

    python benchmarks/intake_traffic.py traffic.json

The file holds the fields of `Traffic` and `texts`. An event comes every hundredth of a second of event time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import KafkaProducer

from agent.demo_texts import LABELS
from agent.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START = datetime(2026, 1, 5, tzinfo=UTC)
SPACING = timedelta(milliseconds=10)
LINES = 100  # a request
SENDERS = 8
# What KServe's logger says of each event beside the required attributes.
EXTENSIONS = {
    "inferenceservicename": "sentiment",
    "namespace": "default",
    "component": "predictor",
    "content-type": "application/json",
}
KSERVE = "org.kubeflow.serving.inference."

Sent = tuple[bytes, dict[str, str]]  # a body and its CloudEvents attributes, if it has any


@dataclass(frozen=True)
class Traffic:
    """What is sent where. `form`: native, native-events, kserve; `lines` a request, or else one event each."""

    form: str
    records: int
    slices: int
    to: str = ""  # host:port of a broker or of the agent
    topic: str = ""
    lines: int = 0

    @property
    def payload(self) -> str:
        """The format that the agent is configured with."""
        return "kserve" if self.form == "kserve" else "native"

    def messages(self, texts: Sequence[str]) -> Iterator[Sent]:
        """One native record each, bare or as an event; KServe's request and response."""
        for place in range(self.records):
            time = (START + place * SPACING).isoformat()
            text, answer = texts[place % len(texts)], place % 2
            if self.form == "kserve":
                yield _event({"instances": [text]}, place, time, f"{KSERVE}request")
                yield _event({"predictions": [answer]}, place, time, f"{KSERVE}response")
                continue
            record = {
                "id": f"{place:08x}-24a8-4603-b098-09c8799950e9",
                "time": time,
                "model": "sentiment",
                "slice": f"tenant-{place % self.slices}",
                "text": text,
                "prediction": LABELS[answer],
            }
            yield (
                _event(record, place, time, "inference")
                if self.form == "native-events"
                else (json.dumps(record).encode(), {})
            )


@contextmanager
def sending(traffic: Traffic, texts: Sequence[str], directory: Path) -> Iterator[None]:
    """Send in a process of its own, meanwhile; all is sent at the end. Exits if that process failed."""
    path = directory / "traffic.json"
    path.write_text(json.dumps({"traffic": asdict(traffic), "texts": list(texts)}), encoding="utf-8")
    with subprocess.Popen([sys.executable, __file__, str(path)]) as process:  # noqa: S603 - this very file
        try:
            yield
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise SystemExit(f"the sending process ended with exit code {process.returncode}")


def _event(content: object, place: int, time: str, kind: str) -> Sent:
    attributes = {
        "specversion": "1.0",
        "type": kind,
        "id": f"{place:08x}-24a8-4603-b098-09c8799950e9",
        "source": "http://localhost:9081/",
        "time": time,
    }
    return json.dumps(content).encode(), attributes | EXTENSIONS


def headers(attributes: dict[str, str], prefix: str) -> list[tuple[str, bytes]]:
    """The headers of a binary-mode event."""
    return [
        (name if name == "content-type" else prefix + name, value.encode()) for name, value in attributes.items()
    ]


def as_read(traffic: Traffic, texts: Sequence[str], arrival: float) -> list[Message]:
    """The messages as a Kafka source hands them on."""
    return [
        Message(body, f"traffic:0:{place}", arrival, "traffic", tuple(headers(attributes, "ce_")))
        for place, (body, attributes) in enumerate(traffic.messages(texts))
    ]


def to_kafka(traffic: Traffic, texts: Sequence[str]) -> None:
    """Produce everything, in order."""
    with KafkaProducer(bootstrap_servers=traffic.to, linger_ms=20, batch_size=1 << 18) as producer:
        for body, attributes in traffic.messages(texts):
            producer.send(traffic.topic, body, headers=headers(attributes, "ce_"))
        producer.flush()


def to_http(traffic: Traffic, texts: Sequence[str]) -> None:
    """Post everything on a few connections that are kept open; in order but for what they overtake."""
    messages = traffic.messages(texts)
    requests = _of_lines(messages, traffic.lines) if traffic.lines else messages

    def send(connection: HTTPConnection, part: list[Sent]) -> None:
        for body, attributes in part:
            _post(connection, body, attributes or {"content-type": "application/x-ndjson"})

    connections = [HTTPConnection(traffic.to) for _ in range(SENDERS)]
    with ThreadPoolExecutor(SENDERS) as pool:
        while part := list(islice(requests, 10 * SENDERS)):
            list(pool.map(send, connections, [part[place::SENDERS] for place in range(SENDERS)]))
    for connection in connections:
        connection.close()


def _of_lines(messages: Iterator[Sent], lines: int) -> Iterator[Sent]:
    while bodies := [body for body, _ in islice(messages, lines)]:
        yield b"\n".join(bodies), {}


def _post(connection: HTTPConnection, body: bytes, attributes: dict[str, str]) -> None:
    """Until it is taken in."""
    while True:
        connection.request("POST", "/", body, dict(headers(attributes, "ce-")))
        response = connection.getresponse()
        response.read()
        if response.status == 200:
            return
        if response.status not in {429, 503}:
            raise SystemExit(f"the agent answered {response.status}")
        time.sleep(0.05)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    wanted = Traffic(**given["traffic"])
    (to_kafka if wanted.topic else to_http)(wanted, given["texts"])

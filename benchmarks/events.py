"""What it costs to take the envelope off an event: the `cloudevents` library beside `agent/payloads/envelope.py`.

    python benchmarks/events.py

Microseconds an event, JSON parsing included, best of several rounds. Without the library (`pip install
cloudevents==2.2.0`) only our own figures are printed.
"""

from __future__ import annotations

import base64
import json
import timeit
from importlib.metadata import version
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from agent.messages import Headers, Message
from agent.payloads.envelope import opened

try:
    from cloudevents.core.bindings.http import HTTPMessage, from_http
    from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
    from cloudevents.core.formats.json import JSONFormat
except ImportError:
    LIBRARY = ""
else:
    LIBRARY = f"cloudevents {version('cloudevents')}"

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS, REPEATS = 7, 2000
CONTENT = {"instances": ["a great film that I would not have missed, whatever the papers said of it"]}
BODY = json.dumps(CONTENT).encode()
ATTRIBUTES = {
    "specversion": "1.0",
    "type": "org.kubeflow.serving.inference.request",
    "id": "0009174a-24a8-4603-b098-09c8799950e9",
    "source": "http://localhost:9081/",
    "time": "2026-08-21T10:00:00.123456789Z",
}
EXTENSIONS = {"inferenceservicename": "sentiment", "namespace": "default", "component": "predictor"}
TRANSPORT = (("host", b"leadline"), ("user-agent", b"Go-http-client/1.1"), ("content-length", b"87"))
BATCH = 100


def main() -> None:
    """Print the table."""
    table = Table("envelope", "ours", LIBRARY or "cloudevents", "json.loads alone", title="µs an event")
    for name, (message, events, library) in cases().items():
        body = message.body or b""
        theirs = f"{cost(library) / events:.1f}" if library else "-"
        table.add_row(
            name,
            f"{cost(lambda message=message: opened(message)) / events:.1f}",
            theirs,
            f"{cost(lambda body=body: json.loads(body)) / events:.1f}",
        )
    Console().print(table)


def cost(run: Callable[[], object]) -> float:
    """Microseconds a call."""
    return min(timeit.repeat(run, number=REPEATS, repeat=ROUNDS)) / REPEATS * 1e6


def cases() -> dict[str, tuple[Message, int, Callable[[], object] | None]]:
    """By name: the message, how many events it holds, and how the library reads it, where it can."""
    whole = ATTRIBUTES | EXTENSIONS
    plain = json.dumps(whole | {"data": CONTENT}).encode()
    encoded = json.dumps(whole | {"data_base64": base64.b64encode(BODY).decode()}).encode()
    batch = b"[" + b",".join([plain] * BATCH) + b"]"
    http = (*TRANSPORT, *headers("ce-", whole), ("content-type", b"application/json"))
    kafka = (*headers("ce_", whole), ("content-type", b"application/json"))
    structured = (*TRANSPORT, ("content-type", b"application/cloudevents+json"))
    batched = (*TRANSPORT, ("content-type", b"application/cloudevents-batch+json"))
    return {
        "none": (message((), BODY), 1, None),
        "none, over HTTP": (message((*TRANSPORT, ("content-type", b"application/json")), BODY), 1, None),
        "binary, HTTP": (message(http, BODY), 1, by_http(http, BODY)),
        "binary, Kafka": (message(kafka, BODY), 1, by_kafka(kafka, BODY)),
        "structured, HTTP": (message(structured, plain), 1, by_http(structured, plain)),
        "structured, Kafka": (message(structured[-1:], plain), 1, by_kafka(structured[-1:], plain)),
        "structured, base64": (message(structured, encoded), 1, by_http(structured, encoded, parse=True)),
        f"batch of {BATCH}": (message(batched, batch), BATCH, None),
    }


def headers(prefix: str, attributes: dict[str, str]) -> Headers:
    """The headers of binary mode."""
    return tuple((prefix + name, value.encode()) for name, value in attributes.items())


def message(given: Headers, body: bytes) -> Message:
    """A message with these headers."""
    return Message(body, "traffic:0:0", 0.0, "traffic", given)


def by_http(given: Headers, body: bytes, *, parse: bool = False) -> Callable[[], object] | None:
    """How the library reads the event; bytes that hold JSON are left to the caller to `parse`."""

    def read() -> object:
        texts = {name: value.decode() for name, value in given}
        data = from_http(HTTPMessage(texts, body), JSONFormat()).get_data()
        return json.loads(data) if parse else data

    return read if LIBRARY else None


def by_kafka(given: Headers, body: bytes) -> Callable[[], object] | None:
    """How the library reads the event."""
    return (
        (lambda: from_kafka(KafkaMessage(dict(given), None, body), JSONFormat()).get_data()) if LIBRARY else None
    )


if __name__ == "__main__":
    main()

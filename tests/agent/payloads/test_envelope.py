"""Envelopes: every way in which CloudEvents come over HTTP and Kafka, and messages without any."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from agent.messages import Headers, Message
from agent.payloads.contract import Kind, Payload
from agent.payloads.envelope import MOST_EVENTS, opened
from agent.reasons import Reason, RejectedError
from agent.records import epoch
from tests.agent.payloads.examples import example

EVENT = {"specversion": "1.0", "type": "org.kubeflow.serving.inference.request", "id": "7", "source": "s"}


def message(content: Any = 1, **headers: str) -> Message:  # noqa: ANN401 - any JSON value
    """A message with JSON content; underlines in a header's name stand for hyphens."""
    given: Headers = tuple((name.replace("_", "-"), value.encode()) for name, value in headers.items())
    return Message(json.dumps(content).encode(), "test:0:0", 0.0, "", given)


def binary(**attributes: str) -> Payload:
    """What a binary event with these attributes besides holds."""
    return only(message(**{f"ce_{name}": value for name, value in (EVENT | attributes).items()}))


def only(given: Message) -> Payload:
    """The only payload of a message."""
    (payload,) = opened(given)
    assert isinstance(payload, Payload)
    return payload


def reason_of(given: Message) -> Reason:
    """Why nothing of the message can be read."""
    with pytest.raises(RejectedError) as caught:
        opened(given)
    return caught.value.reason


def test_a_message_without_headers_is_its_body() -> None:
    """Without an envelope there is content, and nothing is known of it."""
    assert opened(message({"text": "a"})) == [Payload({"text": "a"})]


def test_other_headers_are_no_envelope() -> None:
    """A plain POST, even with a stray extension of an event, is taken for what its body holds."""
    plain = message("a", content_type="application/json", ce_requestid="1", x_request_id="2")
    assert opened(plain) == [Payload("a")]


def test_kserves_event_is_read_from_its_headers() -> None:
    """Binary mode over HTTP: id, time and which half it is, whatever the case of the headers."""
    logged = example("kserve-request").message
    payload = only(logged)
    assert (payload.id, payload.kind) == ("0009174a-24a8-4603-b098-09c8799950e9", Kind.REQUEST)
    for change in (str.lower, str.upper):
        headers = tuple((change(name), value) for name, value in logged.headers)
        assert only(replace(logged, headers=headers)) == payload


def test_kafka_spells_headers_with_underlines() -> None:
    """Binary mode over Kafka says the same as over HTTP, but nothing in it is escaped."""
    headers = tuple((f"ce_{name}", value.encode()) for name, value in (EVENT | {"id": "a%20b"}).items())
    assert only(replace(message(), headers=headers)) == replace(
        binary(), id="a%20b", identity=binary(id="a%2520b").identity
    )


def test_http_escapes_are_undone() -> None:
    """What HTTP headers cannot hold comes in per cents, as the HTTP binding says."""
    assert binary(id="caf%C3%A9%20%25").id == "café %"


def test_structured_mode_gives_the_same_payload() -> None:
    """One JSON object with `data`, or `data_base64`, says what headers and a body say."""
    data = {"text": "a"}
    encoded = base64.b64encode(json.dumps(data).encode()).decode()
    expected = replace(binary(), content=data)
    for event in (EVENT | {"data": data}, EVENT | {"data_base64": encoded}):
        for kind in ("application/cloudevents+json", " Application/CloudEvents+JSON; charset=utf-8"):
            assert only(message(event, content_type=kind)) == expected


def test_structured_mode_does_not_listen_to_attributes_in_headers() -> None:
    """The envelope in the body counts, as the specification says."""
    assert only(message(EVENT | {"data": 1}, content_type="application/cloudevents+json", ce_id="8")).id == "7"


def test_a_bad_event_of_a_batch_costs_no_other() -> None:
    """Each event of a batch gives its payload or its own reason, in order."""
    broken = {name: value for name, value in EVENT.items() if name != "source"}
    picture = {"data_base64": base64.b64encode(b"\x89PNG").decode()}
    events = [EVENT | {"data": 1}, broken | {"data": 2}, EVENT | picture, EVENT | {"id": "8", "data": 4}]
    first, second, third, last = opened(message(events, content_type="application/cloudevents-batch+json"))
    assert (first, second, third) == (binary(), Reason.NOT_AN_EVENT, Reason.NOT_JSON)
    assert isinstance(last, Payload)
    assert (last.id, last.content) == ("8", 4)


def test_a_batch_has_a_bound() -> None:
    """As many events as are allowed are read, and one more is too many."""
    batch = "application/cloudevents-batch+json"
    assert len(opened(message([EVENT | {"data": 1}] * MOST_EVENTS, content_type=batch))) == MOST_EVENTS
    assert reason_of(message([None] * (MOST_EVENTS + 1), content_type=batch)) is Reason.TOO_MANY_ITEMS


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_every_required_attribute_is_required(name: str) -> None:
    """An event that lacks one, or has it empty, is no event, in binary and in structured mode."""
    for attributes in ({key: value for key, value in EVENT.items() if key != name}, EVENT | {name: ""}):
        headers = {f"ce_{key}": value for key, value in attributes.items()}
        assert reason_of(message(**headers)) is Reason.NOT_AN_EVENT
        whole = message(attributes | {"data": 1}, content_type="application/cloudevents+json")
        assert reason_of(whole) is Reason.NOT_AN_EVENT


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("org.kubeflow.serving.inference.request", Kind.REQUEST),
        ("org.kubeflow.serving.inference.response", Kind.RESPONSE),
        ("io.kserve.inference.response", Kind.RESPONSE),
        ("inference.request", Kind.REQUEST),
        ("com.example.no-inference.request", None),
        ("com.example.request", None),
        ("request", None),
    ],
)
def test_the_type_tells_the_half(type_: str, kind: Kind | None) -> None:
    """A type that ends in `inference.request` or `inference.response` says which half; others nothing."""
    assert binary(type=type_).kind is kind


def test_identities_are_those_of_the_specification() -> None:
    """Source, id and type tell an event, and can be cut in no two ways; time and content do not matter."""
    given = [
        ("a", "b", "c"),
        ("ab", "", "c"),
        ("1:a", "b", "c"),
        ("a", "1:b", "c"),
        ("a", "b1", "c"),
        ("a", "b", "d"),
    ]
    identities = {binary(source=f"{s}s", id=f"{i}i", type=f"{t}t").identity for s, i, t in given}
    assert len(identities) == len(given)
    assert binary(time="2026-08-21T10:00:00Z").identity == binary().identity


def test_nanoseconds_are_read() -> None:
    """A time as Go writes it, with nine digits after the point, is a time."""
    assert epoch(binary(time="2026-08-21T10:00:00.123456789Z").time) == pytest.approx(1787306400.123456)


def test_the_last_of_two_headers_counts() -> None:
    """As with `Message.header`."""
    twice = message(**{f"ce_{name}": value for name, value in EVENT.items()})
    assert only(replace(twice, headers=(*twice.headers, ("CE-ID", b"8")))).id == "8"


def test_a_header_without_a_value_is_none() -> None:
    """A null header of Kafka does no harm as an extension, and is missing where it is required."""
    event = message(**{f"ce_{name}": value for name, value in EVENT.items()})
    null: Any = None
    assert only(replace(event, headers=(*event.headers, ("ce_endpoint", null), ("content-type", null)))).id == "7"
    assert reason_of(replace(event, headers=(*event.headers, ("ce_id", null)))) is Reason.NOT_AN_EVENT

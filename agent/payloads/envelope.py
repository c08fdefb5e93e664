"""Takes the envelope off a message: CloudEvents 1.0 (binary, structured, batch; HTTP and Kafka), or none.

What a message is shows in its headers alone, so nothing is configured. Why this is not the `cloudevents` library:
docs/decisions/0009-cloudevents-read-here.md.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING
from urllib.parse import unquote

from agent.payloads.contract import Kind, Payload
from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.messages import Headers, Message

# HTTP and Kafka spell the headers of an event's attributes differently.
HTTP_PREFIX = "ce-"
KAFKA_PREFIX = "ce_"
REQUIRED = frozenset({"specversion", "id", "source", "type"})
# The attribute in a header of this name, by which nothing else has to be looked at.
_ATTRIBUTES = {prefix + name: name for prefix in (HTTP_PREFIX, KAFKA_PREFIX) for name in (*REQUIRED, "time")}
VERSION = "1.0"
STRUCTURED = b"application/cloudevents"
BATCH = b"application/cloudevents-batch"
# `org.kubeflow.serving.inference.request` is KServe's logger, `io.kserve.inference.…` its model server.
KINDS = {"inference.request": Kind.REQUEST, "inference.response": Kind.RESPONSE}
MOST_EVENTS = 4096
# json.loads makes sure of the encoding and of its options first: nearly as long as it takes to parse a record.
_DECODER = json.JSONDecoder()


def opened(message: Message) -> list[Payload | Reason]:
    """What the message holds, one entry an event; a Reason for an event that is broken among good ones.

    RejectedError where nothing at all can be read: no body, no JSON, a single event that is broken.
    """
    body = message.body
    if body is None:
        raise RejectedError(Reason.TOMBSTONE)
    if not message.headers:
        return [Payload(_json(body))]
    attributes, content_type = _envelope(message.headers)
    if content_type.startswith(BATCH):
        return _batch(_json(body))
    if content_type.startswith(STRUCTURED):
        return [_structured(_json(body))]
    if REQUIRED.isdisjoint(attributes):
        return [Payload(_json(body))]
    return [_event(attributes, _json(body))]


def _envelope(headers: Headers) -> tuple[dict[str, object], bytes]:
    """The attributes that matter here, of those that the headers carry, and the content type in lower case."""
    attributes: dict[str, object] = {}
    content_type = b""
    for name, value in headers:
        lowered = name.lower()
        if lowered in _ATTRIBUTES:
            attributes[_ATTRIBUTES[lowered]] = _header_text(value, escaped=lowered.startswith(HTTP_PREFIX))
        elif lowered == "content-type":
            # Kafka allows a header without a value, which clients hand on as None.
            content_type = (value or b"").strip().lower()
    return attributes, content_type


def _header_text(value: bytes | None, *, escaped: bool) -> str | None:
    """The attribute in a header; HTTP escapes with per cents. None for none, and for what is not UTF-8."""
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return unquote(text) if escaped and "%" in text else text


def _json(body: bytes) -> object:
    try:
        return _DECODER.decode(body.decode())
    except ValueError:
        return _json_of_any_encoding(body)
    except RecursionError as error:
        raise RejectedError(Reason.NOT_JSON) from error


def _json_of_any_encoding(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RejectedError(Reason.NOT_JSON) from error


def _batch(events: object) -> list[Payload | Reason]:
    if not isinstance(events, list):
        raise RejectedError(Reason.NOT_AN_EVENT)
    if len(events) > MOST_EVENTS:
        raise RejectedError(Reason.TOO_MANY_ITEMS)
    return [_payload_or_reason(event) for event in events]


def _payload_or_reason(event: object) -> Payload | Reason:
    try:
        return _structured(event)
    except RejectedError as error:
        return error.reason


def _structured(event: object) -> Payload:
    """An event that is one JSON object: `data` holds JSON, `data_base64` bytes that must hold JSON."""
    if not isinstance(event, dict) or ("data" in event) == ("data_base64" in event):
        raise RejectedError(Reason.NOT_AN_EVENT)
    if "data" in event:
        return _event(event, event["data"])
    encoded = event["data_base64"]
    if not isinstance(encoded, str):
        raise RejectedError(Reason.NOT_AN_EVENT)
    try:
        body = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise RejectedError(Reason.NOT_AN_EVENT) from error
    return _event(event, _json(body))


def _event(attributes: Mapping[str, object], content: object) -> Payload:
    name, source, sort = (_attribute(attributes, needed) for needed in ("id", "source", "type"))
    time = attributes.get("time")
    if attributes.get("specversion") != VERSION or not (time is None or isinstance(time, str)):
        raise RejectedError(Reason.NOT_AN_EVENT)
    kind = KINDS.get(".".join(sort.rsplit(".", 2)[-2:]))
    # With the lengths, no two events can be joined to the same text.
    identity = f"{len(source)}:{source}{len(name)}:{name}{sort}"
    return Payload(content, name, time or None, kind, identity)


def _attribute(attributes: Mapping[str, object], name: str) -> str:
    value = attributes.get(name)
    if not isinstance(value, str) or not value:
        raise RejectedError(Reason.NOT_AN_EVENT)
    return value

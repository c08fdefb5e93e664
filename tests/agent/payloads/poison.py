"""The poison corpus: messages that something once sent, or will, and what becomes of each in its own format.

`MESSAGES` is for anyone who wants to be hard on something that reads messages.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from typing import Any

from agent.messages import Headers, Message
from agent.reasons import Reason
from agent.records import LONGEST_ID
from tests.agent.payloads.examples import ARRIVAL

JSON: Headers = (("Content-Type", b"application/json"),)
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json"),)
BATCH: Headers = (("content-type", b"application/cloudevents-batch+json"),)
EVENT: dict[str, Any] = {"specversion": "1.0", "type": "t", "id": "1", "source": "s"}
RECORD = {"text": "great film"}
INPUT = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["good"]}
OUTPUT = {"name": "logits", "shape": [1, 2], "datatype": "FP32", "data": [0.1, 2.0]}


@dataclass(frozen=True)
class Poison:
    """A message, and why its own format rejects it or a record in it; None where it is taken all the same."""

    name: str
    message: Message
    reason: Reason | None
    format: str = "native"


def raw(name: str, body: bytes | None, reason: Reason | None, headers: Headers = (), channel: str = "") -> Poison:
    """A message of the native format with this very body."""
    return Poison(name, Message(body, "poison:0:0", ARRIVAL, channel, headers), reason)


def native(name: str, reason: Reason | None, **fields: Any) -> Poison:  # noqa: ANN401 - any JSON value
    """A record with these fields instead."""
    return raw(name, json.dumps(RECORD | fields).encode(), reason)


def binary(
    name: str, reason: Reason | None, body: bytes = b'{"text": "great film"}', **instead: bytes | None
) -> Poison:
    """A Kafka event with these attributes instead; without those that are None."""
    attributes: dict[str, bytes | None] = {key: value.encode() for key, value in EVENT.items()}
    attributes |= instead
    headers = tuple((f"ce_{key}", value) for key, value in attributes.items() if value is not None)
    return raw(name, body, reason, headers)


def structured(name: str, reason: Reason | None, event: Any, headers: Headers = STRUCTURED) -> Poison:  # noqa: ANN401 - any JSON value
    """A structured event, or a batch."""
    return raw(name, json.dumps(event).encode(), reason, headers)


def of(form: str, name: str, reason: Reason | None, content: Any) -> Poison:  # noqa: ANN401 - any JSON value
    """A message of another format."""
    return Poison(name, Message(json.dumps(content).encode(), "poison:0:0", ARRIVAL, "", JSON), reason, form)


def v2(name: str, reason: Reason | None, **instead: Any) -> Poison:  # noqa: ANN401 - any JSON value
    """An Open Inference request whose tensor is this instead."""
    return of("open-inference", name, reason, {"id": "1", "inputs": [INPUT | instead]})


def v2_answer(name: str, reason: Reason | None, *outputs: Any) -> Poison:  # noqa: ANN401 - any JSON value
    """An Open Inference response with these outputs."""
    return of("open-inference", name, reason, {"id": "1", "outputs": list(outputs)})


def without(key: str) -> dict[str, Any]:
    """An event that lacks an attribute."""
    return {name: value for name, value in (EVENT | {"data": RECORD}).items() if name != key}


_BYTES = [
    raw("tombstone", None, Reason.TOMBSTONE),
    raw("tombstone with an envelope", None, Reason.TOMBSTONE, STRUCTURED),
    raw("empty body", b"", Reason.NOT_JSON),
    raw("blank body", b" \r\n", Reason.NOT_JSON),
    raw("zero byte", b"\x00", Reason.NOT_JSON),
    raw("plain text", b"great film", Reason.NOT_JSON),
    raw("page of a proxy", b"<html><body>502 Bad Gateway</body></html>", Reason.NOT_JSON, JSON),
    raw("truncated", b'{"text": "great fi', Reason.NOT_JSON),
    raw("trailing comma", b'{"text": "great film",}', Reason.NOT_JSON),
    raw("single quotes", b"{'text': 'great film'}", Reason.NOT_JSON),
    raw("two documents", b'{"text": "a"} {"text": "b"}', Reason.NOT_JSON),
    raw("latin-1", b'{"text": "caf\xe9"}', Reason.NOT_JSON),
    raw("bytes that are no text", b"\xff\xfe\xfd\x00\x80", Reason.NOT_JSON),
    raw("gzip that nobody unpacked", gzip.compress(b'{"text": "great film"}'), Reason.NOT_JSON, JSON),
    raw("protobuf", b"\n\tsentiment\x1a\x0242*\x0e\n\x04text\x12\x05BYTES", Reason.NOT_JSON),
    raw("deep arrays", b"[" * 100_000, Reason.NOT_JSON),
    raw("deep arrays, closed", b"[" * 100_000 + b"]" * 100_000, Reason.NOT_JSON),
    raw("deep objects", b'{"text":' * 100_000 + b"1" + b"}" * 100_000, Reason.NOT_JSON),
    raw("integer of 5,000 digits", b'{"text": "a", "id": ' + b"9" * 5_000 + b"}", Reason.NOT_JSON),
    raw("control character in a string", b'{"text": "a\x01b"}', Reason.NOT_JSON),
    raw("byte order mark", b'\xef\xbb\xbf{"text": "great film"}', None),
    raw("UTF-16", '{"text": "great film"}'.encode("utf-16"), None),
    raw("key given twice", b'{"text": 1, "text": "great film"}', None),
    raw("lone surrogate in the text", b'{"text": "great \\ud800 film"}', None),
    raw("lone surrogate in the id", b'{"text": "great film", "id": "\\udfff"}', None),
    raw("lone surrogate in raw bytes", b'{"text": "great \xed\xa0\x80 film"}', None),
    raw("null", b"null", Reason.NOT_AN_OBJECT),
    raw("not a number", b"NaN", Reason.NOT_AN_OBJECT),
    raw("minus infinity", b"-Infinity", Reason.NOT_AN_OBJECT),
    raw("array", b"[]", Reason.NOT_AN_OBJECT),
    raw("string", b'"great film"', Reason.NOT_AN_OBJECT),
    raw("true", b"true", Reason.NOT_AN_OBJECT),
    raw("nameless headers", b'{"text": "great film"}', None, (("", b""), ("\x00", b"\xff"))),
]

_NATIVE = [
    raw("empty object", b"{}", Reason.NO_TEXT),
    native("text is null", Reason.TEXT_NOT_STRING, text=None),
    native("text is a number", Reason.TEXT_NOT_STRING, text=1),
    native("text is a list", Reason.TEXT_NOT_STRING, text=["great film"]),
    native("text is blank", Reason.EMPTY_TEXT, text="\u2003\n"),
    native("id is an object", Reason.WRONG_TYPE, id={}),
    native("id is endless", Reason.ID_TOO_LONG, id="x" * (LONGEST_ID + 1)),
    native("time is in milliseconds", Reason.INVALID_TIME, time=1_787_306_400_000),
    native("time is before 1970", Reason.INVALID_TIME, time="1969-12-31T23:59:59Z"),
    native("time is infinite", Reason.INVALID_TIME, time=float("inf")),
    native("time is tomorrow", Reason.FUTURE_TIME, time=ARRIVAL + 86_400),
    native("another model", Reason.OTHER_MODEL, model="spam"),
    native("unknown class", Reason.UNKNOWN_LABEL, prediction="meh"),
    raw("label of nothing", b'{"label": null}', Reason.LABEL_ONLY),
]

_EVENTS = [
    binary("event without a version", Reason.NOT_AN_EVENT, specversion=None),
    binary("event of version 0.3", Reason.NOT_AN_EVENT, specversion=b"0.3"),
    binary("event without an id", Reason.NOT_AN_EVENT, id=None),
    binary("event with an empty id", Reason.NOT_AN_EVENT, id=b""),
    binary("event without a source", Reason.NOT_AN_EVENT, source=None),
    binary("event without a type", Reason.NOT_AN_EVENT, type=None),
    binary("event whose id is no text", Reason.NOT_AN_EVENT, id=b"\xff\xfe"),
    binary("event at no time", Reason.INVALID_TIME, time=b"yesterday"),
    binary("event without content", Reason.NOT_JSON, body=b""),
    binary("event with binary content", Reason.NOT_JSON, body=b"\x80\x81"),
    structured("structured event that is a list", Reason.NOT_AN_EVENT, []),
    structured("structured event that is null", Reason.NOT_AN_EVENT, None),
    structured("structured event without an id", Reason.NOT_AN_EVENT, without("id")),
    structured("structured event without data", Reason.NOT_AN_EVENT, without("data")),
    structured("structured event with a number for an id", Reason.NOT_AN_EVENT, EVENT | {"id": 1, "data": RECORD}),
    structured(
        "structured event with a number for a time", Reason.NOT_AN_EVENT, EVENT | {"time": 1, "data": RECORD}
    ),
    structured(
        "structured event of a number's version", Reason.NOT_AN_EVENT, without("id") | {"specversion": 1.0}
    ),
    structured("two kinds of data", Reason.NOT_AN_EVENT, EVENT | {"data": RECORD, "data_base64": ""}),
    structured("data_base64 that is none", Reason.NOT_AN_EVENT, EVENT | {"data_base64": "€"}),
    structured("data_base64 that is a number", Reason.NOT_AN_EVENT, EVENT | {"data_base64": 7}),
    structured(
        "data_base64 of a picture",
        Reason.NOT_JSON,
        EVENT | {"data_base64": base64.b64encode(b"\x89PNG\r\n").decode()},
    ),
    structured("data that is null", Reason.NOT_AN_OBJECT, EVENT | {"data": None}),
    structured("data that is a string", Reason.NOT_AN_OBJECT, EVENT | {"data": '{"text": "great film"}'}),
    structured("lone surrogate in an event's id", None, EVENT | {"id": "\ud800", "data": RECORD}),
    raw("event in Avro", b"\x0ahello", Reason.NOT_JSON, (("content-type", b"application/cloudevents+avro"),)),
    raw("deep event", b'{"data":' * 100_000, Reason.NOT_JSON, STRUCTURED),
    structured("batch that is an event", Reason.NOT_AN_EVENT, EVENT | {"data": RECORD}, BATCH),
    structured("batch of junk", Reason.NOT_AN_EVENT, [None, 1, "a", [], {}], BATCH),
    structured("batch with one bad event", Reason.NOT_AN_EVENT, [without("id"), without("")], BATCH),
    structured("batch of 5,000", Reason.TOO_MANY_ITEMS, [None] * 5_000, BATCH),
    structured("empty batch", None, [], BATCH),
]

_SERVERS = [
    of("kserve", "question and answer at once", Reason.NOT_THIS_FORMAT, {"instances": [], "predictions": []}),
    of("kserve", "neither question nor answer", Reason.NOT_THIS_FORMAT, {"error": "model not ready"}),
    of("kserve", "list instead of a V1 body", Reason.NOT_AN_OBJECT, ["great film"]),
    of("kserve", "instances in columns", Reason.NOT_THIS_FORMAT, {"instances": {"text": ["great film"]}}),
    of("kserve", "rows of flowers", Reason.TEXT_NOT_STRING, {"instances": [[6.8, 2.8, 4.8, 1.4]]}),
    of("kserve", "instance without a text", Reason.NO_TEXT, {"instances": [{"pixels": []}]}),
    of("kserve", "5,000 instances", Reason.TOO_MANY_ITEMS, {"instances": ["a"] * 5_000}),
    of("kserve", "class out of range", Reason.UNKNOWN_LABEL, {"predictions": [2]}),
    of("kserve", "negative class", Reason.UNKNOWN_LABEL, {"predictions": [-1]}),
    of("kserve", "class of 4,000 digits", Reason.UNKNOWN_LABEL, {"predictions": [int("9" * 4_000)]}),
    of("kserve", "class that is true", Reason.NOT_THIS_FORMAT, {"predictions": [True]}),
    of("kserve", "class that is null", Reason.NOT_THIS_FORMAT, {"predictions": [None]}),
    of("kserve", "class that is NaN", Reason.NOT_THIS_FORMAT, {"predictions": [float("nan")]}),
    of("kserve", "half a class", Reason.NOT_THIS_FORMAT, {"predictions": [0.5]}),
    of("kserve", "three logits of two", Reason.LOGITS_WIDTH, {"predictions": [[1.0, 2.0, 3.0]]}),
    of("kserve", "logits in words", Reason.NOT_THIS_FORMAT, {"predictions": [["high", "low"]]}),
    of("kserve", "one class by two names", Reason.NOT_THIS_FORMAT, {"predictions": [{"0": 0.1, "negative": 0.9}]}),
    of("kserve", "scores of unknown classes", Reason.UNKNOWN_LABEL, {"predictions": [{"a": 0.1, "b": 0.9}]}),
    of("kserve", "answer that is empty", Reason.NOT_THIS_FORMAT, {"predictions": [{}]}),
    of("kserve", "logits that are infinite", None, {"predictions": [[float("inf"), 0.0]]}),
    v2("fewer texts than the shape says", Reason.MISALIGNED, shape=[2]),
    v2("more texts than the shape says", Reason.MISALIGNED, data=["good", "bad"]),
    v2("negative shape", Reason.NOT_THIS_FORMAT, shape=[-1]),
    v2("shape of true", Reason.NOT_THIS_FORMAT, shape=[True]),
    v2("shape beyond any memory", Reason.NOT_THIS_FORMAT, shape=[10**18]),
    v2("shape of two thousand million", Reason.TOO_MANY_ITEMS, shape=[2**31 - 1]),
    v2("wide shape of nothing", Reason.MISALIGNED, shape=[1, *[2**31 - 1] * 7], data=[]),
    v2("nine dimensions", Reason.NOT_THIS_FORMAT, shape=[1] * 9),
    v2("no dimensions", Reason.NOT_THIS_FORMAT, shape=[]),
    v2("shape that is a number", Reason.NOT_THIS_FORMAT, shape=1),
    v2("no data, as in the binary extension", Reason.NOT_THIS_FORMAT, data=None),
    v2("two columns of text", Reason.MISALIGNED, shape=[1, 2], data=["good", "bad"]),
    v2("ragged rows", Reason.MISALIGNED, shape=[2, 1], data=[["good"], []]),
    v2("rows and values mixed", Reason.MISALIGNED, shape=[2, 1], data=[["good"], "bad"]),
    v2("text that is a number", Reason.TEXT_NOT_STRING, data=[1]),
    v2("tokens instead of text", Reason.NOT_THIS_FORMAT, datatype="INT64", data=[101]),
    of("open-inference", "endless id", Reason.ID_TOO_LONG, {"id": "x" * (LONGEST_ID + 1), "inputs": [INPUT]}),
    of("open-inference", "tensors that are strings", Reason.NOT_THIS_FORMAT, {"inputs": ["good"]}),
    of(
        "open-inference",
        "pairs of another length",
        Reason.MISALIGNED,
        {"inputs": [INPUT, INPUT | {"name": "text_pair", "shape": [0], "data": []}]},
    ),
    v2_answer("no outputs", Reason.NOT_THIS_FORMAT),
    v2_answer("outputs of different lengths", Reason.MISALIGNED, OUTPUT, INPUT | {"shape": [0], "data": []}),
    v2_answer("embeddings alone", Reason.LOGITS_WIDTH, OUTPUT | {"shape": [1, 3], "data": [1, 2, 3]}),
    v2_answer("truth values", Reason.NOT_THIS_FORMAT, OUTPUT | {"datatype": "BOOL", "data": [True, False]}),
    v2_answer("class that is text", Reason.NOT_THIS_FORMAT, INPUT | {"datatype": "INT64", "data": ["1"]}),
    v2_answer("class in broken JSON", Reason.NOT_JSON, INPUT | {"name": "output", "data": ['{"label": "pos']}),
    v2_answer("class in deep JSON", Reason.NOT_JSON, INPUT | {"name": "output", "data": ["[" * 100_000]}),
    of("huggingface", "model that loads", Reason.NOT_THIS_FORMAT, {"error": "loading", "estimated_time": 20.0}),
    of("huggingface", "text that was generated", Reason.NOT_THIS_FORMAT, [{"generated_text": "great film"}]),
    of("huggingface", "score in words", Reason.NOT_THIS_FORMAT, [{"label": "positive", "score": "high"}]),
    of("huggingface", "label that is a list", Reason.NOT_THIS_FORMAT, [[{"label": [], "score": 1}] * 2]),
    of("huggingface", "list and object mixed", Reason.NOT_THIS_FORMAT, [[{"label": "a", "score": 1}], {}]),
    of("huggingface", "same class twice", Reason.NOT_THIS_FORMAT, [[{"label": "positive", "score": 0.5}] * 2]),
    of("huggingface", "text of nothing", Reason.NOT_THIS_FORMAT, [[]]),
    of("huggingface", "a number", Reason.NOT_THIS_FORMAT, 7),
    of("seldon", "list in a topic", Reason.NOT_AN_OBJECT, []),
    of("bentoml", "line that is a list", Reason.NOT_AN_OBJECT, []),
    of("bentoml", "line without columns", Reason.NO_TEXT, {"timestamp": "2026-08-21T10:00:00"}),
    of("bentoml", "line at no time", Reason.INVALID_TIME, {"text": "a", "timestamp": "now"}),
    of("mapping", "paths that lead nowhere", Reason.NO_TEXT, {"call": {"args": []}}),
    of("mapping", "paths through other types", Reason.NO_TEXT, {"call": [{"args": "text"}]}),
    of("mapping", "path that ends at a list", Reason.TEXT_NOT_STRING, {"call": {"args": [{"body text": []}]}}),
]

POISON = [*_BYTES, *_NATIVE, *_EVENTS, *_SERVERS]
MESSAGES: list[tuple[str, Message]] = [(each.name, each.message) for each in POISON]

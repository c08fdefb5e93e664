"""The messages in one request: one event, a batch of them, lines, or an array of native records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent.messages import LABELS, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.messages import Headers
    from agent.sources.http.inbox import Delivery

BATCH = "application/cloudevents-batch+json"
EVENT = b"application/cloudevents+json"
LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
LINES |= {"application/jsonlines", "application/json-lines"}
_JSON = (("content-type", b"application/json"),)
_SPACE = " \t\r\n"
_BLANKS = frozenset(_SPACE)
# Only where an element ends matters here, and the length of a number has no limit, unlike its value.
_DECODER = json.JSONDecoder(parse_int=len, parse_float=len)


def messages(delivery: Delivery, origin: str, *, native: bool) -> Iterator[Message]:
    """One at a time, so that a request of a million records costs no more memory than its bytes.

    Arrays are taken apart where they are batches of events or `native` records. A binary-mode event is whole
    whatever it holds: all of it has one id. Where an array is broken, its rest is one message, to be rejected.
    """
    media = _media_type(delivery.headers)
    if any(name.startswith("ce-") for name, _ in delivery.headers):
        pieces, headers = None, delivery.headers
    elif media == BATCH:
        pieces, headers = _elements(delivery.body), (("content-type", EVENT),)
    elif media in LINES:
        pieces, headers = _lines(delivery.body), _JSON
    elif native or delivery.channel == LABELS:
        pieces, headers = _elements(delivery.body), _JSON
    else:
        pieces, headers = None, delivery.headers
    if pieces is None:
        yield Message(delivery.body, origin, delivery.arrival, delivery.channel, headers)
        return
    for place, piece in enumerate(pieces):
        whole = piece is delivery.body
        name, kept = (origin, delivery.headers) if whole else (f"{origin}.{place}", headers)
        yield Message(piece, name, delivery.arrival, delivery.channel, kept)


def _media_type(headers: Headers) -> str:
    given = dict(headers).get("content-type", b"").decode("latin-1")
    return given.partition(";")[0].strip().lower()


def _lines(body: bytes) -> Iterator[bytes]:
    """The lines that are not blank."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        line = body[start:end].strip()
        if line:
            yield line
        start = end + 1


def _elements(body: bytes) -> Iterator[bytes]:
    r"""The elements of a JSON array as they were written; the body itself where it is none.

    >>> list(_elements(b'[{"a": 1} , {"b": 2}]')), list(_elements(b'[1, oops]')), list(_elements(b'{}'))
    ([b'{"a": 1}', b'{"b": 2}'], [b'1', b'oops]'], [b'{}'])
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield body
        return
    place = _past_space(text, 0)
    if text[place : place + 1] != "[":
        yield body
        return
    yield from _inside(text, _past_space(text, place + 1))


def _inside(text: str, place: int) -> Iterator[bytes]:
    """The elements from `place` on, just after the opening bracket; what is no part of the array comes last."""
    closed = text[place : place + 1] == "]"
    while not closed:
        try:
            _, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        yield text[place:end].encode()
        place = _past_space(text, end)
        closed = text[place : place + 1] == "]"
        if text[place : place + 1] == ",":
            place = _past_space(text, place + 1)
        elif not closed:
            break
    rest = text[place + closed :].strip(_SPACE)
    if rest or not closed:
        yield rest.encode()


def _past_space(text: str, place: int) -> int:
    while text[place : place + 1] in _BLANKS:
        place += 1
    return place

"""A dead letter as a Kafka message: what came, unchanged, and what is known of it in headers of our own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from exporters.dead_letters.facts import arrival_of, position_of

if TYPE_CHECKING:
    from agent.messages import DeadLetter

OURS = "x-dlq-"


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is sent. A `value` of None needs a `key`."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes]]


def whole(letter: DeadLetter) -> Envelope:
    """Body, key and headers as they came. Without body and key it could not be sent: then the body is empty."""
    message = letter.message
    empty = message.body is None and message.key is None
    told = _told(letter, body="none") if empty else _told(letter)
    return Envelope(b"" if empty else message.body, message.key, [*_kept(letter), *told])


def without_body(letter: DeadLetter) -> Envelope:
    """For a letter larger than a broker takes: the size and the sha256 of the body in its place, as JSON."""
    told = _told(letter, body="omitted")
    return Envelope(_digest(letter), letter.message.key, [*_kept(letter), *told])


def without_content(letter: DeadLetter) -> Envelope:
    """For one that is too large even so: neither key nor headers of the sender's."""
    return Envelope(_digest(letter), None, _told(letter, body="omitted", key="omitted", headers="omitted"))


def _kept(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """The sender's headers; of ours, if it died before, what was said the first time: they must not pile up."""
    seen: set[str] = set()
    kept = []
    for name, value in letter.message.headers:
        plain = name.lower()
        if plain in seen:
            continue
        if plain.startswith(OURS):
            seen.add(plain)
        kept.append((_encodable(name), value))
    return kept


def _told(letter: DeadLetter, **marks: str) -> list[tuple[str, bytes]]:
    message, position = letter.message, position_of(letter.message)
    where = {"origin": message.origin} if position is None else dict(zip(PLACE, position, strict=True))
    facts = where | {"reason": letter.reason, "items": str(letter.items), "time": arrival_of(message)} | marks
    return [(OURS + name, value.encode("utf-8", "replace")) for name, value in facts.items()]


PLACE = ("topic", "partition", "offset")


def _digest(letter: DeadLetter) -> bytes:
    body = letter.message.body or b""
    return json.dumps({"sha256": sha256(body).hexdigest(), "bytes": len(body)}).encode()


def _encodable(name: str) -> str:
    """Kafka's header names are UTF-8, which a lone surrogate has no form in."""
    return name.encode("utf-8", "replace").decode()

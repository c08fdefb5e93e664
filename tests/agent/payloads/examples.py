"""The example payloads of docs/payloads: messages as they come, and the parts that must be made of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.messages import Headers, Message
from agent.payloads.contract import Kind, Part
from agent.payloads.envelope import opened
from agent.payloads.formats import FORMATS, Format, format_of
from agent.reasons import Reason
from agent.source_config import PayloadConfig

FOLDER = Path(__file__).parents[3] / "docs" / "payloads"
LABELS = ("negative", "positive")
ARRIVAL = 1_787_306_460.0


@dataclass(frozen=True)
class Example:
    """One message with what is to come of it."""

    name: str
    message: Message
    config: PayloadConfig
    parts: list[Part] = field(default_factory=list)


def message_of(text: str, origin: str = "example:0:0") -> Message:
    """The message of a `.http` file: a request line or `TOPIC name`, headers, an empty line, the body."""
    head, body = text.rstrip("\n").split("\n\n", 1)
    first, *lines = head.splitlines()
    headers: Headers = tuple(
        (name, value.strip().encode()) for name, _, value in (line.partition(":") for line in lines)
    )
    return Message(body.encode(), origin, ARRIVAL, first.split()[1], headers)


def example(name: str) -> Example:
    """The example of this name."""
    facts = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    config = PayloadConfig(format=facts["format"], mapping=facts.get("mapping"))
    parts = [Part(Kind(part["kind"]), part["fields"], part["key"]) for part in facts["parts"]]
    return Example(name, message_of((FOLDER / f"{name}.http").read_text(encoding="utf-8")), config, parts)


EXAMPLES = [example(path.stem) for path in sorted(FOLDER.glob("*.http"))]


def formats_used() -> list[Format]:
    """Every row of the table; the mapping with paths that lead somewhere."""
    by_name = {each.config.format: each.config for each in EXAMPLES}
    return [format_of(by_name[name]) for name in FORMATS]


def decoded(message: Message, form: Format) -> list[Part | Reason]:
    """What the message gives: parts, and the reasons of broken events of a batch. RejectedError if nothing."""
    made: list[Part | Reason] = []
    for payload in opened(message):
        made += [payload] if isinstance(payload, Reason) else form.parts(payload, message, LABELS)
    return made


def body_of(message: Message) -> Any:  # noqa: ANN401 - any JSON value
    """The body of a message, as JSON."""
    return json.loads(message.body or b"null")

"""What a payload format does: content in, parts out. A format is pure and knows neither transport nor model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a part is: a whole inference, one half of it, or a label that arrived later."""

    RECORD = "record"
    REQUEST = "request"
    RESPONSE = "response"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class Payload:
    """What a message holds once its envelope is off.

    `content` is JSON as Python holds it. `id` names the request or the event, None where nothing does; `time` is
    what the envelope says, in whatever form; `kind` is what the envelope or the channel says the content is, None
    where they say nothing. `identity` tells a second delivery of one event; None where nothing does.
    """

    content: object
    id: str | None = None
    time: str | None = None
    kind: Kind | None = None
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One inference as native fields (docs/RECORDS.md), or the half of it that a message holds.

    The request and the response of one inference share `key`; None cannot be paired.
    """

    kind: Kind
    fields: dict[str, object]
    key: str | None = None


# The parts of a payload, one an item, in order; RejectedError if it is not of this format. The names are the
# model's labels in the order of its logits, for formats that give classes by number.
Decode = Callable[[Payload, Sequence[str]], Sequence[Part]]

"""KServe V1: `{"instances": […]}` asks, `{"predictions": […]}` answers, matched by the event's id and by place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.payloads.answers import answer
from agent.payloads.contract import Kind
from agent.payloads.items import ECHOED, Fields, bounded, half, parts, text_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.payloads.contract import Part, Payload


def decode(payload: Payload, labels: Sequence[str]) -> Sequence[Part]:
    """One half a message, one part an instance or prediction."""
    kind, content = half(payload, "instances", "predictions")
    if kind is Kind.REQUEST:
        items = [text_fields(item) for item in bounded(content["instances"])]
    else:
        items = [_answer(item, labels) for item in bounded(content["predictions"])]
    return parts(kind, payload, items)


def _answer(item: object, labels: Sequence[str]) -> Fields:
    """The answer, and the text where the answer repeats it."""
    if not isinstance(item, dict) or "text" not in item:
        return answer(item, labels)
    return text_fields(item) | answer({name: value for name, value in item.items() if name not in ECHOED}, labels)

"""Native records: one JSON object, whose fields are the record's own (docs/RECORDS.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.payloads.contract import Kind, Part
from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.payloads.contract import Payload


def decode(payload: Payload, _labels: Sequence[str]) -> Sequence[Part]:
    """The record, or the label that comes after it. The envelope's id and time stand in where it has none."""
    fields = payload.content
    if not isinstance(fields, dict):
        raise RejectedError(Reason.NOT_AN_OBJECT)
    return [part_of(fields, payload)]


def part_of(fields: dict[str, object], payload: Payload) -> Part:
    """What these native fields are; they are not changed."""
    if "text" not in fields and "tokens" not in fields and fields.get("label") is not None:
        return Part(Kind.LABEL, fields)
    if payload.id is not None and fields.get("id") is None:
        fields = fields | {"id": payload.id}
    if payload.time is not None and fields.get("time") is None and fields.get("timestamp") is None:
        fields = fields | {"time": payload.time}
    return Part(Kind.RECORD, fields)

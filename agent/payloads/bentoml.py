"""Lines of BentoML's monitoring log: columns by name, and `timestamp`, `request_id` and `trace_id` beside them.

The time is local to the server and names no zone: it is taken as UTC, so run the server in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.payloads.answers import answer
from agent.payloads.contract import Kind
from agent.payloads.items import parts, text_fields
from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.payloads.contract import Part, Payload

# What the model answered is a column named by the service; `label` here is never the truth.
ANSWER_NAMES = ("label", "prediction")
# BentoML writes this where there is no request.
NO_REQUEST = "None"


def decode(payload: Payload, labels: Sequence[str]) -> Sequence[Part]:
    """One record a line."""
    line = payload.content
    if not isinstance(line, dict):
        raise RejectedError(Reason.NOT_AN_OBJECT)
    fields = text_fields(line)
    found = next((line[name] for name in ANSWER_NAMES if line.get(name) is not None), None)
    if found is not None:
        fields |= answer(found, labels)
    request = line.get("request_id")
    made = parts(Kind.RECORD, payload, [fields], None if request == NO_REQUEST else request)
    if line.get("timestamp") is not None:
        fields["time"] = line["timestamp"]
    return made

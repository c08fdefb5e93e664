"""The items of one message: bounded, in order, each with the id that tells it from its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.payloads.contract import Kind, Part
from agent.reasons import Reason, RejectedError
from agent.records import LONGEST_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.payloads.contract import Payload

Fields = dict[str, object]

MOST_ITEMS = 4096
# Where a text is in an object that holds one, the first of these that is there.
TEXT_NAMES = ("text", "inputs", "input", "sentence", "content", "document", "data")

# Under these names an answer repeats what it was asked; then it is a record without its request.
ECHOED = ("text", "text_pair")


def parts(kind: Kind, payload: Payload, items: Sequence[Fields], own: object = None) -> list[Part]:
    """One part an item, whose fields are completed in place. `own` is the id that the content itself carries."""
    name = _name(payload, own)
    made = []
    for place, fields in enumerate(items):
        key = name if name is None or len(items) == 1 else f"{name}#{place}"
        if key is not None:
            fields["id"] = key
        if payload.time is not None:
            fields["time"] = payload.time
        made.append(Part(kind, fields, key))
    return made


def _name(payload: Payload, own: object) -> str | None:
    """What both halves of an inference are called.

    An envelope that knows which half it holds names the pair, and so survives a server that makes up an id of its
    own for the response; any other envelope names each half anew, and only the content can name the pair.
    """
    inside = str(own) if isinstance(own, str | int) and not isinstance(own, bool) and own != "" else None
    chosen = payload.id or inside if payload.kind else inside or payload.id
    if chosen is not None and len(chosen) > LONGEST_ID:
        raise RejectedError(Reason.ID_TOO_LONG)  # before it waits for its other half
    return None if chosen is None else encodable(chosen)


def encodable(text: str) -> str:
    """The text without lone surrogates: ids go into a database."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def half(payload: Payload, request: str, response: str) -> tuple[Kind, dict[str, object]]:
    """Which half an object is, told by the envelope, or else by which of the two keys it has; and the object.

    RejectedError if it is no object, lacks that key or, where the envelope says nothing, has both.
    """
    content = payload.content
    if not isinstance(content, dict):
        raise RejectedError(Reason.NOT_AN_OBJECT)
    keys = {Kind.REQUEST: request, Kind.RESPONSE: response}
    held = [kind for kind, key in keys.items() if key in content and payload.kind in {None, kind}]
    if len(held) != 1:
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    return held[0], content


def bounded(value: object) -> list[object]:
    """The list that this is, of at most MOST_ITEMS."""
    if not isinstance(value, list):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    if len(value) > MOST_ITEMS:
        raise RejectedError(Reason.TOO_MANY_ITEMS)
    return value


def text_fields(item: object) -> Fields:
    """The text of one input: a string, or an object with `text` or a like field and perhaps `text_pair`.

    Anything else is handed on: then this item is rejected for its text, and not its neighbours.
    """
    if not isinstance(item, dict):
        return {"text": shallow(item)}
    fields: Fields = {}
    for name in TEXT_NAMES:
        if name in item:
            fields["text"] = shallow(item[name])
            break
    if item.get("text_pair") is not None:
        fields["text_pair"] = shallow(item["text_pair"])
    return fields


def shallow(value: object) -> object:
    """The value, but an empty list for any list or object: a half waits, and what is deep cannot be stored."""
    return [] if isinstance(value, list | dict) else value

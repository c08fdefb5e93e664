"""Strategies that make messages nobody meant to send: the examples, bent a little or a lot, and random ones."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from agent.messages import Headers, Message
from tests.agent.payloads.examples import ARRIVAL, EXAMPLES, body_of
from tests.agent.payloads.poison import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = [
    *("text", "text_pair", "tokens", "label", "score", "logits", "probabilities", "id", "time", "kind", "model"),
    *("instances", "predictions", "inputs", "outputs", "name", "shape", "datatype", "data", "data_base64", "call"),
    *(
        "specversion",
        "source",
        "type",
        "positive",
        "negative",
        "LABEL_0",
        "LABEL_1",
        "0",
        "1",
        "BYTES",
        "FP32",
        "INT64",
    ),
]
NUMBERS = st.one_of(
    st.integers(-3, 5),
    st.sampled_from([4096, 4097, 2**31, 2**63, 10**30, -1, 10**400]),
    st.floats(),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(WORDS), st.text(max_size=8))
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=4),
    ),
    max_leaves=12,
)
HEADERS = st.sampled_from(
    [each.message.headers for each in EXAMPLES] + [message.headers for _, message in MESSAGES]
)
CHANNELS = st.sampled_from(["", "/", "seldon.default.model.sentiment.inputs", "a.outputs"])


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401 - any JSON value
    """The path of every value inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, each in inner for place in places(each, (*here, key)))]


@st.composite
def bent(draw: Callable[[st.SearchStrategy[Any]], Any], content: Any, most: int = 4) -> Any:  # noqa: ANN401 - any JSON value
    """The same JSON with one or more values replaced, dropped, doubled, wrapped, or moved; rarely all of it."""
    whole = {"root": copy.deepcopy(content)}
    for _ in range(draw(st.integers(1, most))):
        inside = places(whole)[2:]
        place = draw(st.sampled_from(inside)) if inside and draw(st.integers(0, 19)) else ("root",)
        holder: Any = whole
        for key in place[:-1]:
            holder = holder[key]
        old = holder[place[-1]]
        change = draw(st.sampled_from(["replace", "drop", "double", "wrap", "rename", "copy"]))
        if change == "drop" and len(place) > 1:
            del holder[place[-1]]
        elif change == "rename" and isinstance(holder, dict) and len(place) > 1:
            holder[draw(st.sampled_from(WORDS))] = holder.pop(place[-1])
        elif change == "double" and isinstance(old, list):
            holder[place[-1]] = old + copy.deepcopy(old)
        elif change == "wrap":
            holder[place[-1]] = draw(st.sampled_from([[old], {"text": old}, [old, old]]))
        elif change == "copy":
            holder[place[-1]] = copy.deepcopy(whole["root"])
        else:
            holder[place[-1]] = draw(JSON)
    return whole["root"]


@st.composite
def bodies(draw: Callable[[st.SearchStrategy[Any]], Any], content: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Bytes: mostly bent JSON, sometimes inside an event, now and then cut, spliced or random."""
    made = draw(bent(content) | JSON)
    envelope = draw(st.sampled_from(["none", "data", "data_base64", "batch"]))
    plain = json.dumps(made).encode()
    event = {"specversion": "1.0", "type": "inference.request", "id": "1", "source": "s"}
    if envelope != "none":
        encoded = base64.b64encode(plain).decode()
        event |= {"data_base64": encoded} if envelope == "data_base64" else {"data": made}
        plain = json.dumps([draw(bent(event)), event] if envelope == "batch" else event).encode()
    damage = draw(st.sampled_from(["none"] * 7 + ["cut", "splice", "random"]))
    if damage == "cut":
        return plain[: draw(st.integers(0, len(plain)))]
    if damage == "splice":
        at = draw(st.integers(0, len(plain)))
        return plain[:at] + draw(st.binary(max_size=6)) + plain[at:]
    return draw(st.binary(max_size=64)) if damage == "random" else plain


@st.composite
def headers(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Headers:
    """The headers of an example or of a poison, some dropped, changed or doubled."""
    kept = [header for header in draw(HEADERS) if draw(st.integers(0, 9))]
    if kept and draw(st.booleans()):
        at = draw(st.integers(0, len(kept) - 1))
        kept[at] = (kept[at][0], draw(st.binary(max_size=8) | st.just(kept[at][1] * 2)))
    return tuple(kept)


@st.composite
def messages(draw: Callable[[st.SearchStrategy[Any]], Any], form: str) -> Message:
    """A message that is nearly of this format."""
    base = draw(st.sampled_from([each.message for each in EXAMPLES if each.config.format == form]))
    if draw(
        st.integers(0, 2)
    ):  # mostly gently: what is far off is refused at the door, and says little of the rest
        return replace(base, body=json.dumps(draw(bent(body_of(base), most=2))).encode())
    body = draw(bodies(body_of(base)))
    given = draw(st.just(base.headers) | headers())
    return Message(body, "fuzz:0:0", ARRIVAL, draw(st.just(base.channel) | CHANNELS), given)

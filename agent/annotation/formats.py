"""How the items of a batch are written: JSON Lines, and tasks for Label Studio."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from agent.annotation.batch import TOKENS
from agent.tables import ITEM_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.annotation.batch import Batch, Item

# What some readers take for the end of a line, and JSON does not escape.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
OPTIONAL = ("prediction", "probabilities", "text", "text_pair", "text_kept")


def one_line(value: object) -> bytes:
    """A value as JSON on one line of UTF-8, null for NaN, with halves of surrogate pairs replaced."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False).translate(_LINE_ENDS)
    return text.encode("utf-8", "replace")


def _plain(value: Any) -> Any:  # noqa: ANN401 - walks any JSON-like value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def item_facts(item: Item) -> dict[str, Any]:
    """One item as JSON holds it; what is not known of it is left out."""
    facts = asdict(item)
    return {key: value for key, value in facts.items() if value is not None or key not in OPTIONAL}


def json_lines(items: Iterable[Item]) -> bytes:
    """One object an item, one line each."""
    return b"".join(one_line(item_facts(item)) + b"\n" for item in items)


def label_studio(batch: Batch, items: Sequence[Item]) -> bytes:
    """Tasks to import, with the model's prediction attached where there is one for the whole text."""
    pairs = any(item.text_pair is not None for item in items)
    tasks = [one_line(_task(batch, item, pairs=pairs)) for item in items]
    return b"[\n" + b",\n".join(tasks) + b"\n]\n"


def _task(batch: Batch, item: Item, *, pairs: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": item.id,
        # Label Studio writes a number of its own over `id` in JSON-MIN and CSV.
        ITEM_ID: item.id,
        "text": f"(the text was not kept: look it up by its id, {item.id})" if item.text is None else item.text,
        "slice": item.slice,
        "episode": batch.episode,
        "dissimilar": item.dissimilar,
    }
    if pairs:
        data["text_pair"] = item.text_pair or ""
    if item.prediction is None:
        return {"data": data}
    choice = {"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [item.prediction]}}
    told = {"model_version": f"{batch.model} {batch.reference_id}", "score": item.confidence, "result": [choice]}
    return {"data": data, "predictions": [told]}


def labelling_config(batch: Batch, *, pairs: bool) -> bytes:
    """What Label Studio asks for under "Labeling Interface > Code", so that these tasks fit."""
    # A tab or the end of a line would come back as a space: attributes are read so.
    kept = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
    shown = ['  <Text name="text" value="$text"/>']
    if pairs:
        shown.append('  <Text name="text_pair" value="$text_pair"/>')
    if batch.task == TOKENS:
        asked = ['  <Labels name="label" toName="text">', *_choices("Label", batch.labels, kept), "  </Labels>"]
    else:
        opened = '  <Choices name="label" toName="text" choice="single" required="true">'
        asked = [opened, *_choices("Choice", batch.labels, kept), "  </Choices>"]
    return "\n".join(["<View>", *shown, *asked, "</View>", ""]).encode("utf-8", "replace")


def _choices(element: str, labels: Sequence[str], kept: dict[str, str]) -> list[str]:
    return [f"    <{element} value={quoteattr(label, kept)}/>" for label in labels]

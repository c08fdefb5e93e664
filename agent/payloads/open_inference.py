"""Open Inference Protocol V2 in JSON: `inputs` ask, `outputs` answer, matched by id and by row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent.payloads.answers import answer, named, row
from agent.payloads.contract import Kind
from agent.payloads.items import ECHOED, TEXT_NAMES, Fields, half, parts, shallow
from agent.payloads.tensors import Tensor, tensor, tensors
from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.payloads.contract import Part, Payload

BYTES = "BYTES"
FEATURES = "features"


def decode(payload: Payload, labels: Sequence[str]) -> Sequence[Part]:
    """One half a message, one part a row of its tensors."""
    kind, content = half(payload, "inputs", "outputs")
    if kind is Kind.REQUEST:
        items = _texts(tensors(content["inputs"]))
    else:
        items = _answers([tensor(each) for each in tensors(content["outputs"])], labels)
        version = content.get("model_version")
        if isinstance(version, str) and version:
            items = [fields | {"model_version": version} for fields in items]
    return parts(kind, payload, items, content.get("id"))


def _texts(inputs: list[dict[str, object]]) -> list[Fields]:
    """The rows of the text tensor, and of `text_pair` beside it."""
    by_name = {str(each.get("name")): each for each in inputs if each.get("datatype") == BYTES}
    pairs = by_name.pop("text_pair", None)
    chosen = next((by_name[name] for name in TEXT_NAMES if name in by_name), next(iter(by_name.values()), None))
    if chosen is None:
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    items: list[Fields] = [{"text": shallow(text)} for text in _column(tensor(chosen))]
    if pairs is not None:
        column = _column(tensor(pairs))
        if len(column) != len(items):
            raise RejectedError(Reason.MISALIGNED)
        for fields, text in zip(items, column, strict=True):
            fields["text_pair"] = shallow(text)
    return items


def _column(texts: Tensor) -> list[object]:
    """One value an item."""
    if texts.width != 1:
        raise RejectedError(Reason.MISALIGNED)
    return texts.values


def _answers(outputs: list[Tensor], labels: Sequence[str]) -> list[Fields]:
    """What all outputs together say of each row. A class that is named goes before the largest of the numbers."""
    if len({each.count for each in outputs}) > 1:
        raise RejectedError(Reason.MISALIGNED)
    single = [each for each in outputs if each.width == 1]
    echoed = [each for each in single if each.name in ECHOED]
    classes = [each for each in single if _gives_classes(each) and each.name not in ECHOED]
    numbers = [each for each in outputs if each.datatype.startswith(("FP", "BF"))]
    scores = [each for each in numbers if each.width == len(labels) and each.name != FEATURES]
    scores.sort(key=lambda each: _raw(each.name) is None)
    if not classes and not scores:
        raise RejectedError(Reason.LOGITS_WIDTH if numbers else Reason.NOT_THIS_FORMAT)
    features = [each for each in numbers if each.name == FEATURES]
    items = []
    for place in range(outputs[0].count):
        fields: Fields = {each.name: shallow(each.values[place]) for each in echoed}
        for each in scores[:1]:
            fields |= row(each.row(place), labels, raw=_raw(each.name))
        for each in classes[:1]:
            fields |= _class(each.values[place], labels, counted=each.datatype != BYTES)
        for each in features[:1]:
            fields[FEATURES] = [shallow(value) for value in each.row(place)]
        items.append(fields)
    return items


def _gives_classes(output: Tensor) -> bool:
    return output.datatype == BYTES or output.datatype.startswith(("INT", "UINT"))


def _raw(name: str) -> bool | None:
    """Whether an output of this name holds logits; None where the name does not tell."""
    lowered = name.lower()
    if "logit" in lowered:
        return True
    return False if "prob" in lowered else None


def _class(value: object, labels: Sequence[str], *, counted: bool) -> Fields:
    """The class in one value: an index, a name, or a Hugging Face answer that MLServer writes as JSON text."""
    if counted:
        return {"prediction": named(None if isinstance(value, str) else value, labels)}
    if not isinstance(value, str):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    if not value.startswith(("{", "[")) or value in labels:
        return {"prediction": named(value, labels)}
    try:
        inner = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RejectedError(Reason.NOT_JSON) from error
    return answer(inner, labels)

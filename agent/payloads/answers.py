"""What a model answered, in the forms that servers give it, as `prediction`, `probabilities` and `logits`.

Probabilities stay probabilities: no logits are made up from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.payloads.items import Fields

# Probabilities are often rounded, or of half precision.
SUM_TOLERANCE = 1e-3
# The largest number of float32.
LARGEST = 3.4e38
# Hugging Face's name of a class that has none.
UNNAMED = "LABEL_"
LONGEST_INDEX = 9


def named(value: object, labels: Sequence[str]) -> str:
    """The class that a name, an index or `LABEL_<index>` stands for.

    A name that the model does not know comes back as it is, for the record alone to be rejected; RejectedError for
    an index out of range and for what is no class at all.

    >>> [named(value, ["negative", "positive"]) for value in ("positive", 1, 0.0, "1", "LABEL_0", "meh")]
    ['positive', 'positive', 'negative', 'positive', 'negative', 'meh']
    """
    if isinstance(value, str):
        digits = value.removeprefix(UNNAMED)
        if value in labels or not (digits.isascii() and digits.isdigit() and len(digits) <= LONGEST_INDEX):
            return value
        value = int(digits)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    if not 0 <= value < len(labels):
        raise RejectedError(Reason.UNKNOWN_LABEL)
    return labels[value]


def answer(value: object, labels: Sequence[str]) -> Fields:
    """One answer in whichever form: a class, one number a class, an object of them, or an object with `label`."""
    if isinstance(value, dict):
        return {"prediction": named(value["label"], labels)} if "label" in value else by_class(value, labels)
    if isinstance(value, list) and value:
        return scored(value, labels) if isinstance(value[0], dict) else row(value, labels)
    return {"prediction": named(value, labels)}


def row(numbers: Sequence[object], labels: Sequence[str], *, raw: bool | None = None) -> Fields:
    """One number a class, in the order of the labels: logits if `raw`, and told by their values if it is None."""
    if len(numbers) != len(labels):
        raise RejectedError(Reason.LOGITS_WIDTH)
    values = [_number(number) for number in numbers]
    if not all(_finite(value) for value in values):
        # No class is the largest here. Whether it matters depends on whether the model needs logits.
        return {"logits": values}
    prediction = labels[max(range(len(values)), key=values.__getitem__)]
    if probable(values) if raw is None else not raw:
        return {"prediction": prediction, "probabilities": dict(zip(labels, map(float, values), strict=True))}
    return {"prediction": prediction, "logits": values}


def by_class(numbers: Mapping[str, object], labels: Sequence[str]) -> Fields:
    """A number for each class by name or index; where some classes are missing, only which is the largest."""
    found: dict[str, object] = {}
    for key, number in numbers.items():
        name = named(key, labels)
        if name not in labels:
            raise RejectedError(Reason.UNKNOWN_LABEL)
        if name in found:
            raise RejectedError(Reason.NOT_THIS_FORMAT)
        found[name] = number
    if not found:
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    if len(found) == len(labels):
        return row([found[name] for name in labels], labels)
    if not all(_finite(number) for number in found.values()):
        return {}
    return {"prediction": max(found, key=lambda name: _number(found[name]))}


def scored(entries: Sequence[object], labels: Sequence[str]) -> Fields:
    """The entries `{"label", "score"}` of one item, all classes of it or only the first few.

    Scores that are no distribution come from a sigmoid a class, and are no logits either.
    """
    pairs = [pair(entry) for entry in entries]
    if len(pairs) == 1:
        return {"prediction": named(pairs[0][0], labels)}
    fields = by_class({_key(label): score for label, score in pairs}, labels)
    if len({_key(label) for label, _ in pairs}) != len(pairs):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    if "logits" in fields and all(0 <= _number(score) <= 1 for _, score in pairs):
        return {"prediction": fields["prediction"]}
    return fields


def pair(entry: object) -> tuple[object, object]:
    """The label and the score of one entry."""
    if not isinstance(entry, dict) or "label" not in entry or "score" not in entry:
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    _number(entry["score"])
    return entry["label"], entry["score"]


def probable(numbers: Sequence[float]) -> bool:
    """Whether these are probabilities of classes that exclude each other."""
    return all(0 <= number <= 1 for number in numbers) and abs(sum(numbers) - 1) <= SUM_TOLERANCE


def _key(label: object) -> str:
    if not isinstance(label, str | int) or isinstance(label, bool):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    return str(label)


def _finite(value: object) -> bool:
    return -LARGEST <= _number(value) <= LARGEST


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    return value

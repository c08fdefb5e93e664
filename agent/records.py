"""A record, one inference event, and how its native JSON form becomes one or is rejected for a named reason."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeGuard

from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# A record from further ahead than this would seal every pane before it, and make the others late.
CLOCK_SKEW = 300.0
MOST_BYTES = 1 << 20
# Ids are kept with the sample, so their size must have a bound.
LONGEST_ID = 256
# A line has a bound; the rows of a table come without one, and each token brings a row of logits.
MOST_TOKENS = 10_000


@dataclass(frozen=True, slots=True)
class Record:
    """One inference event. `time` is epoch seconds; `slice` is the value of the configured slice field.

    A sequence labeller's has a prediction, a label and a row of logits for each token.
    """

    id: str
    text: str
    time: float
    pair: str | None = None
    slice: str | None = None
    prediction: str | tuple[str, ...] | None = None
    label: str | tuple[str, ...] | None = None
    logits: tuple[float, ...] | None = None
    features: tuple[float, ...] | None = None
    token_logits: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True)
class Expected:
    """What a record must carry for this model: which labels, how many logits and features (0: none needed).

    `tokens` says that the model labels tokens, each with its own logits.
    """

    model: str
    labels: frozenset[str]
    logits: int = 0
    features: int = 0
    slice_field: str = "slice"
    most_bytes: int = MOST_BYTES
    tokens: bool = False


def from_fields(fields: Mapping[str, object], expected: Expected, position: str, arrival: float) -> Record:
    """The record with these native fields, checked. RejectedError otherwise.

    `position` names the record where it carries no id, `arrival` (epoch seconds) dates it where it has no time.
    """
    if fields.get("model") not in (None, expected.model):
        raise RejectedError(Reason.OTHER_MODEL)
    if "text" not in fields and fields.get("tokens") is None:
        raise RejectedError(Reason.LABEL_ONLY if "label" in fields else Reason.NO_TEXT)
    if _longer(fields.get("text"), expected.most_bytes) or _longer(fields.get("text_pair"), expected.most_bytes):
        raise RejectedError(Reason.TOO_LARGE)
    needed = expected.tokens or "text" not in fields
    tokens = _tokens(fields.get("tokens"), expected.most_bytes) if needed else ()
    labelled = len(tokens) if expected.tokens else None
    width, given = expected.logits, fields.get("logits")
    return Record(
        id=_id(fields.get("id")) or position,
        text=_text(fields.get("text", " ".join(tokens))),
        time=_time(fields.get("time", fields.get("timestamp")), arrival),
        pair=_string(fields.get("text_pair")),
        slice=_string(fields.get(expected.slice_field)),
        prediction=_classes(fields.get("prediction"), expected, labelled),
        label=_classes(fields.get("label"), expected, labelled),
        logits=_numbers(given, width, _LOGITS) if labelled is None else None,
        features=_numbers(fields.get("features"), expected.features, _FEATURES),
        token_logits=None if labelled is None else _token_numbers(given, width, labelled),
    )


def label_of(fields: Mapping[str, object], expected: Expected, arrival: float) -> Label:
    """The label that these native fields bring for a record known by its id. RejectedError otherwise."""
    name, label = _id(fields.get("id")), fields.get("label")
    if name is None or label is None:
        raise RejectedError(Reason.LABEL_ONLY)
    many = len(label) if expected.tokens and isinstance(label, list) else None
    found = _classes(label, expected, many)
    if found is None:
        raise RejectedError(Reason.LABEL_ONLY)
    return Label(name, found, arrival)


def _longer(value: object, most: int) -> bool:
    """A line has a bound of its own; the rows of a table come without one."""
    return isinstance(value, str) and len(value) > most


def _time(value: object, arrival: float) -> float:
    if value is None:
        return arrival
    moment = epoch(value)
    if moment > arrival + CLOCK_SKEW:
        raise RejectedError(Reason.FUTURE_TIME)
    return moment


def epoch(value: object) -> float:
    """Epoch seconds of an RFC 3339 time, a datetime (UTC where it names no zone) or a number of seconds.

    The number may come as text, as CSV brings it. RejectedError for anything else, and before 1970.

    >>> epoch("2026-08-21T10:00:00Z") == epoch(datetime(2026, 8, 21, 10, tzinfo=UTC)) == 1787306400.0
    True
    """
    moment = _moment(value) if isinstance(value, str) else value
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(moment, int | float) and not isinstance(moment, bool) and 0 <= moment < _FAR_FUTURE:
        return float(moment)
    raise RejectedError(Reason.INVALID_TIME)


def _moment(value: str) -> datetime | float:
    try:
        return datetime.fromisoformat(value.upper())  # RFC 3339 allows a lower-case t and z
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError as error:
        raise RejectedError(Reason.INVALID_TIME) from error


# The year 9999: keeps pane arithmetic in range, and refuses milliseconds taken for seconds only far later.
_FAR_FUTURE = 253_402_300_800


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise RejectedError(Reason.TEXT_NOT_STRING)
    if not value.strip():
        raise RejectedError(Reason.EMPTY_TEXT)
    return _encodable(value)


def _encodable(value: str) -> str:
    """The text without lone surrogates, which JSON can smuggle in and no encoder or database takes."""
    if value.isascii():  # known without looking at it, and the usual case
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode()
    return value


def _string(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(value)
    raise RejectedError(Reason.WRONG_TYPE)


def _id(value: object) -> str | None:
    name = _string(value)
    if name is not None and len(name) > LONGEST_ID:
        raise RejectedError(Reason.ID_TOO_LONG)
    return name


def _class(value: object, expected: Expected) -> str | None:
    name = _string(value)
    if name is not None and name not in expected.labels:
        raise RejectedError(Reason.UNKNOWN_LABEL)
    return name


def _tokens(value: object, most: int) -> tuple[str, ...]:
    """The tokens, at least one; together of at most `most` characters."""
    if value is None or value == []:
        raise RejectedError(Reason.NO_TOKENS)
    if not isinstance(value, list):
        raise RejectedError(Reason.TOKENS_NOT_STRINGS)
    if len(value) > MOST_TOKENS:
        raise RejectedError(Reason.TOO_LARGE)
    tokens = tuple(token for token in value if isinstance(token, str))
    if len(tokens) != len(value):
        raise RejectedError(Reason.TOKENS_NOT_STRINGS)
    if sum(map(len, tokens)) > most:
        raise RejectedError(Reason.TOO_LARGE)
    return tokens


def _classes(value: object, expected: Expected, tokens: int | None) -> str | tuple[str, ...] | None:
    """A known class, or for a model that labels so many tokens one for each."""
    if tokens is None or value is None:
        return _class(value, expected)
    if not isinstance(value, list):
        raise RejectedError(Reason.WRONG_TYPE)
    if len(value) != tokens:
        raise RejectedError(Reason.TOKENS_MISMATCH)
    names = tuple(name for item in value if (name := _class(item, expected)) is not None)
    if len(names) != tokens:
        raise RejectedError(Reason.UNKNOWN_LABEL)
    return names


def _token_numbers(value: object, width: int, tokens: int) -> tuple[tuple[float, ...], ...]:
    """`width` logits for each of so many tokens."""
    if value is None:
        raise RejectedError(Reason.NO_LOGITS)
    if not isinstance(value, list):
        raise RejectedError(Reason.LOGITS_WIDTH)
    if len(value) != tokens:
        raise RejectedError(Reason.TOKENS_MISMATCH)
    return tuple(_numbers(row, width, _LOGITS) or () for row in value)


_LOGITS = (Reason.NO_LOGITS, Reason.LOGITS_WIDTH, Reason.LOGITS_NOT_FINITE)
_FEATURES = (Reason.NO_FEATURES, Reason.FEATURES_WIDTH, Reason.FEATURES_NOT_FINITE)


def _numbers(value: object, width: int, reasons: tuple[Reason, Reason, Reason]) -> tuple[float, ...] | None:
    """The numbers this model needs, or None where it needs none and whatever came is ignored."""
    absent, wrong_width, not_finite = reasons
    if not width:
        return None
    if value is None:
        raise RejectedError(absent)
    numbers: Sequence[object] = value if isinstance(value, list) else ()
    if len(numbers) != width:
        raise RejectedError(wrong_width)
    usable = tuple(float(number) for number in numbers if _usable(number))
    if len(usable) != width:
        raise RejectedError(not_finite)
    return usable


def _usable(number: object) -> TypeGuard[float]:
    """Whether it is a number that float32 holds: a larger one turns scores into NaN."""
    return isinstance(number, int | float) and not isinstance(number, bool) and -_LARGEST <= number <= _LARGEST


_LARGEST = 3.4e38


@dataclass(frozen=True, slots=True)
class Label:
    """A true class that arrived on its own, for the record of this id; `time` is its arrival, epoch seconds."""

    id: str
    label: str | tuple[str, ...]
    time: float

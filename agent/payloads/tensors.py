"""Tensors of the Open Inference Protocol, in JSON: flat or nested, checked against their shape."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import prod

from agent.payloads.items import MOST_ITEMS
from agent.reasons import Reason, RejectedError

MOST_DIMENSIONS = 8
# Sizes beyond this are no sizes: the product of a few of them stays a small number to compute.
LARGEST_SIZE = 1 << 31


@dataclass(frozen=True, slots=True)
class Tensor:
    """`width` values for each of `count` items, row by row."""

    name: str
    datatype: str
    count: int
    width: int
    values: list[object]

    def row(self, place: int) -> list[object]:
        """The values of one item."""
        return self.values[place * self.width : (place + 1) * self.width]


def tensors(value: object) -> list[dict[str, object]]:
    """The tensors of a request or response, by the JSON objects that describe them; the data is not looked at."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    return value


def tensor(described: dict[str, object]) -> Tensor:
    """The tensor, its data flat. RejectedError if shape and data do not agree; nothing is allocated by shape."""
    name, datatype, data = described.get("name"), described.get("datatype"), described.get("data")
    if not isinstance(name, str) or not isinstance(datatype, str) or not isinstance(data, list):
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    shape = _shape(described.get("shape"))
    if shape[0] > MOST_ITEMS:
        raise RejectedError(Reason.TOO_MANY_ITEMS)
    nested = bool(data) and isinstance(data[0], list)
    values = _unnested(data, shape) if nested else data
    if len(values) != prod(shape):
        raise RejectedError(Reason.MISALIGNED)
    return Tensor(name, datatype.upper(), shape[0], prod(shape[1:]), values)


def _shape(value: object) -> list[int]:
    sizes = [size for size in value if _is_size(size)] if isinstance(value, list) else []
    if not isinstance(value, list) or len(sizes) != len(value) or not 1 <= len(sizes) <= MOST_DIMENSIONS:
        raise RejectedError(Reason.NOT_THIS_FORMAT)
    return sizes


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= LARGEST_SIZE


def _unnested(data: list[object], shape: list[int]) -> list[object]:
    """The values in row-major order, level by level, as long as every list has the length its shape says."""
    level: list[object] = [data]
    for size in shape:
        lists = [each for each in level if isinstance(each, list) and len(each) == size]
        if len(lists) != len(level):
            raise RejectedError(Reason.MISALIGNED)
        level = list(chain.from_iterable(lists))
    return level

"""What was fitted as plain arrays and back, without pickle."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class Fitted(Protocol):
    """A dataclass whose fields are arrays and numbers: a detector, a panel."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


F = TypeVar("F", bound=Fitted)


def to_arrays(fitted: Fitted) -> dict[str, NDArray[np.generic]]:
    """Each constructor field as an array in C order; a number becomes a 0-d array.

    safetensors writes memory as it lies: any other order would come back scrambled.
    """
    return {item.name: np.asarray(getattr(fitted, item.name), order="C") for item in fields(fitted) if item.init}


def from_arrays(kind: type[F], arrays: Mapping[str, NDArray[np.generic]]) -> F:
    """What `to_arrays` took apart. KeyError names a missing field."""
    values = {
        item.name: arrays[item.name] if arrays[item.name].ndim else arrays[item.name].item()
        for item in fields(kind)
        if item.init
    }
    return kind(**values)

"""A fitted detector as plain arrays and back, without pickle."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from detectors.contract import Detector

D = TypeVar("D", bound="Detector")


def to_arrays(detector: Detector) -> dict[str, NDArray[np.generic]]:
    """Each constructor field as an array in C order; a number becomes a 0-d array.

    safetensors writes memory as it lies: any other order would come back scrambled.
    """
    return {
        item.name: np.asarray(getattr(detector, item.name), order="C") for item in fields(detector) if item.init
    }


def from_arrays(kind: type[D], arrays: Mapping[str, NDArray[np.generic]]) -> D:
    """The detector that `to_arrays` took apart. KeyError names a missing field."""
    values = {
        item.name: arrays[item.name] if arrays[item.name].ndim else arrays[item.name].item()
        for item in fields(kind)
        if item.init
    }
    return kind(**values)

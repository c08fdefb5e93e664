"""A pane as bytes: how the state store keeps it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from agent.panes import Pane, Tally
from agent.sample import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pack(pane: Pane) -> bytes:
    """A pane as safetensors bytes; `unpack` gives it back exactly."""
    arrays: dict[str, NDArray[np.generic]] = {
        f"tally.{item.name}": np.asarray(getattr(pane.tally, item.name)) for item in fields(Tally)
    }
    arrays |= {f"sample.{item.name}": np.asarray(getattr(pane.sample, item.name)) for item in fields(Sample)}
    # safetensors has no text: the ids go as the bytes of their UTF-32 code points.
    ids = pane.sample.ids
    arrays["sample.ids"] = ids.view(np.uint32).reshape(len(ids), ids.dtype.itemsize // 4)
    return save({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()})


def unpack(name: str, start: int, content: bytes) -> Pane:
    """The pane that `pack` wrote. ValueError or KeyError for bytes that it did not."""
    try:
        arrays = load(content)
    except SafetensorError as error:
        raise ValueError("these bytes are not a pane") from error
    ids = arrays["sample.ids"]
    arrays["sample.ids"] = np.ascontiguousarray(ids).view(f"<U{ids.shape[1]}").reshape(len(ids))

    def part(kind: str, names: list[str]) -> list[Any]:
        found = [arrays[f"{kind}.{field}"] for field in names]
        return [array if array.ndim else array.item() for array in found]

    return Pane(
        name,
        start,
        Tally(*part("tally", [item.name for item in fields(Tally)])),
        Sample(*part("sample", [item.name for item in fields(Sample)])),
    )

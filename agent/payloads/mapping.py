"""Any JSON object as a record: for each native field, the path of its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import UsageError
from agent.payloads.answers import named
from agent.payloads.native import part_of
from agent.payloads.paths import compiled, found
from agent.reasons import Reason, RejectedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.payloads.contract import Decode, Part, Payload
    from agent.payloads.paths import Path

NATIVE = (
    "id",
    "time",
    "model",
    "model_version",
    "slice",
    "text",
    "text_pair",
    "tokens",
    "prediction",
    "probabilities",
    "logits",
    "features",
    "label",
)
# These may come as the index of a class.
CLASSES = ("prediction", "label")


def decoder(mapping: Mapping[str, str]) -> Decode:
    """Decodes by these paths. UsageError, naming the field and the path, for one that is none."""
    paths = {field: _compiled(field, path) for field, path in mapping.items()}
    if not {"text", "tokens"} & paths.keys() and not {"id", "label"} <= paths.keys():
        raise UsageError(
            "mapping: has no `text`. Say where it is, or where `id` and `label` are for labels alone."
        )

    def decode(payload: Payload, labels: Sequence[str]) -> Sequence[Part]:
        return [part_of(_fields(payload.content, paths, labels), payload)]

    return decode


def _compiled(field: str, path: str) -> Path:
    if field not in NATIVE:
        raise UsageError(f"mapping.{field}: is no field of a record. Fields are {', '.join(NATIVE)}.")
    try:
        return compiled(path)
    except ValueError as error:
        raise UsageError(f"mapping.{field}: the path {path!r} {error}") from error


def _fields(content: object, paths: Mapping[str, Path], labels: Sequence[str]) -> dict[str, object]:
    """The values that are there, under their native names."""
    if not isinstance(content, dict):
        raise RejectedError(Reason.NOT_AN_OBJECT)
    fields = {field: value for field, path in paths.items() if (value := found(content, path)) is not None}
    for field in CLASSES:
        if isinstance(fields.get(field), int | str):
            fields[field] = named(fields[field], labels)
    return fields

"""The payload formats: one row each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.messages import LABELS
from agent.payloads import bentoml, huggingface, kserve, mapping, native, open_inference, seldon

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.messages import Message
    from agent.payloads.contract import Decode, Kind, Part, Payload
    from agent.source_config import FormatName, PayloadConfig


@dataclass(frozen=True, slots=True)
class Format:
    """How one format is read, and what the transport says where the envelope says nothing.

    `id_header` is the header with the id of the request, `kinds` tells a half by how the channel's name ends.
    """

    name: FormatName
    description: str
    decode: Decode
    id_header: str = ""
    kinds: Mapping[str, Kind] = field(default_factory=lambda: MappingProxyType({}))

    def parts(self, payload: Payload, message: Message, labels: Sequence[str]) -> Sequence[Part]:
        """The parts of a payload that came in this message. RejectedError if it is not of this format."""
        if self.id_header:
            kind = payload.kind or self._kind(message)
            payload = replace(payload, id=payload.id or self._id(message), kind=kind)
        return self.decode(payload, labels)

    def _id(self, message: Message) -> str | None:
        value = message.header(self.id_header)
        return value.decode("utf-8", "replace") if value else None

    def _kind(self, message: Message) -> Kind | None:
        return next((kind for ending, kind in self.kinds.items() if message.channel.endswith(ending)), None)


FORMATS: Mapping[FormatName, Format] = MappingProxyType(
    {
        "native": Format("native", "Leadline's own records, one JSON object each", native.decode),
        "kserve": Format("kserve", "KServe V1: instances and predictions", kserve.decode),
        "open-inference": Format(
            "open-inference", "Open Inference Protocol V2: inputs and outputs, in JSON", open_inference.decode
        ),
        "huggingface": Format("huggingface", "Hugging Face text classification", huggingface.decode),
        "seldon": Format(
            "seldon",
            "Seldon Core 2 topics, in JSON",
            seldon.decode,
            seldon.ID_HEADER,
            MappingProxyType(seldon.KINDS),
        ),
        "bentoml": Format("bentoml", "Lines of BentoML's monitoring log", bentoml.decode),
        "mapping": Format(
            "mapping",
            "Any JSON object, by the paths of its fields",
            mapping.decoder({name: name for name in mapping.NATIVE}),
        ),
    }
)


def format_of(config: PayloadConfig) -> Format:
    """The format that is configured. UsageError for a mapping that is none."""
    row = FORMATS[config.format]
    return row if config.mapping is None else replace(row, decode=mapping.decoder(config.mapping))


def parts_of(config: PayloadConfig, labels: Sequence[str]) -> Callable[[Payload, Message], Sequence[Part]]:
    """What decodes the payloads of the messages that hold them, for a model with these labels."""
    chosen = format_of(config)

    def parts(payload: Payload, message: Message) -> Sequence[Part]:
        form = FORMATS["native"] if message.channel == LABELS else chosen
        return form.parts(payload, message, labels)

    return parts

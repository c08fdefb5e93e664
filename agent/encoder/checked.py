"""What an ONNX file must be before onnxruntime may see it: whole, self-contained, standard operators only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import onnx
from google.protobuf.message import DecodeError, Message

from agent.errors import ArtefactError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})

Rounding = Literal["none", "fixed", "per-batch"]


@dataclass(frozen=True)
class CheckedModel:
    """A model that onnxruntime may see. Bytes only: a parsed copy of the weights would double the memory."""

    name: str  # for messages: the file it came from
    data: bytes
    rounding: Rounding

    @classmethod
    def of(
        cls, data: bytes, name: str, finish: Callable[[onnx.ModelProto], bool] = lambda _: False
    ) -> CheckedModel:
        """Check ``data``; ``finish`` may complete the graph in place, and says whether it did."""
        model = parse_model(data, name)
        finished = model.SerializeToString() if finish(model) else data
        return cls(name, finished, rounding(model))


def parse_model(data: bytes, name: str) -> onnx.ModelProto:
    """The model in ``data``. Raises ArtefactError, naming ``name``, where it is damaged or reaches outside."""
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise ArtefactError(f"{name} is not an ONNX model: the file is damaged or of another kind") from error
    if not model.graph.node:  # few bytes, or none, parse as an empty message
        raise ArtefactError(f"{name} is not an ONNX model: it has no graph")
    _refuse_external_data(model, name)
    _refuse_custom_operators(model, name)
    return model


def rounding(model: onnx.ModelProto) -> Rounding:
    """How the model rounds activations. Scales taken per batch make a text's result depend on its neighbours."""
    operators = {node.op_type for node in _messages(model) if isinstance(node, onnx.NodeProto)}
    if any(operator.startswith("DynamicQuantize") for operator in operators):
        return "per-batch"
    return "fixed" if "QuantizeLinear" in operators else "none"


def _refuse_external_data(model: onnx.ModelProto, name: str) -> None:
    # External data is a path the runtime would open: any file the process can read.
    for tensor in _messages(model):
        if not isinstance(tensor, onnx.TensorProto):
            continue
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise ArtefactError(
                f"{name}: tensor {tensor.name!r} keeps its data in another file, which is refused; "
                f"save the model with all its weights inside",
            )


def _refuse_custom_operators(model: onnx.ModelProto, name: str) -> None:
    # A custom operator's code would have to come from a library beside the model.
    domains = {
        message.domain
        for message in _messages(model)
        if isinstance(message, onnx.NodeProto | onnx.OperatorSetIdProto | onnx.FunctionProto)
    }
    if unknown := sorted(domains - DOMAINS):
        raise ArtefactError(f"{name} uses operators outside ONNX and onnxruntime: {', '.join(unknown)}")


def _messages(root: Message) -> Iterator[Message]:
    """``root`` and every message inside: subgraphs, attributes, sparse tensors, functions, whatever is added."""
    yield root
    for field, value in root.ListFields():
        if field.message_type is None:
            continue
        for child in [value] if isinstance(value, Message) else value:
            yield from _messages(child)

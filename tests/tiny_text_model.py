"""A text model of a few bytes, so that most tests need no download: each word is a row of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import NodeProto

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d")
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 5)).astype(np.float32)
MASK, SEGMENTS = "attention_mask", "token_type_ids"


def tokenizer_json(max_tokens: int = 16) -> bytes:
    """Whitespace words between [CLS] and [SEP], padded to a fixed length as published files often are."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token=WORDS[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_truncation(max_tokens)
    tokenizer.enable_padding(length=max_tokens)
    return tokenizer.to_str().encode()


def token_model(output: str = "last_hidden_state", *inputs: str) -> ModelProto:
    """Token vectors (n, length, 5) looked up in TABLE; ``inputs`` are declared beside the ids."""
    node = helper.make_node("Gather", ["table", "input_ids"], [output])
    return model_of([node], output, ["batch", "length", 5], inputs=inputs)


def logits_model(scale_segments: float = 1.0) -> ModelProto:
    """Logits (n, 5): the sum of the token vectors, second segments scaled."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("Cast", [MASK], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Cast", [SEGMENTS], ["segments"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["segments", "scale"], ["scaled"]),
        helper.make_node("Add", ["mask", "scaled"], ["weights"]),
        helper.make_node("Unsqueeze", ["weights", "axis"], ["row"]),
        helper.make_node("MatMul", ["row", "tokens"], ["sum"]),
        helper.make_node("Squeeze", ["sum", "axis"], ["logits"]),
    ]
    model = model_of(nodes, "logits", ["batch", 5], inputs=(MASK, SEGMENTS))
    model.graph.initializer.append(numpy_helper.from_array(np.array(scale_segments, np.float32), "scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axis"))
    return model


def model_of(
    nodes: list[NodeProto],
    output: str,
    shape: list[str | int],
    *,
    inputs: tuple[str, ...] = (MASK,),
    domain: str = "",
) -> ModelProto:
    """A model of ``nodes`` over ``table`` with one output."""
    declared = [
        helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "length"]) for n in ("input_ids", *inputs)
    ]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "tiny", declared, outputs, [numpy_helper.from_array(TABLE, "table")])
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def write_model(directory: Path, model: ModelProto, name: str = "model.onnx") -> Path:
    """A directory with ``model`` and its tokenizer."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    (directory / "tokenizer.json").write_bytes(tokenizer_json())
    return directory

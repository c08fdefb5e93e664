"""all-MiniLM-L6-v2 as an ONNX graph, straight from its weights: BERT, 6 layers, 384 wide, 12 heads.

Written with onnxruntime's fused operators. In fp32 they are as fast as the standard ones, which onnxruntime
fuses itself; int8 needs them, since attention is quantised whole only where it is one operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper

from agent.encoder.graph import CONTRIB, GraphWriter
from agent.encoder.pooling import pool_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from onnx import ModelProto

    Weights = Mapping[str, NDArray[np.float32]]

LAYERS, WIDTH, HEADS = 6, 384, 12
MAX_TOKENS = 256  # what the model was trained with; its position table is longer
EPSILON = 1e-12
INPUTS = ("input_ids", "token_type_ids", "attention_mask")


def fp32_model(weights: Weights) -> ModelProto:
    """The whole encoder: int64 (n, length) ids, segments and right-padded mask to ``embedding`` (n, 384)."""
    model = _empty()
    writer = _Bert(GraphWriter(model.graph), weights)
    hidden = writer.embeddings()
    for layer in range(LAYERS):
        hidden = writer.layer(f"encoder.layer.{layer}.", hidden)
    pool_tokens(model, hidden, "mean")
    return model


def _empty() -> ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in INPUTS]
    graph = helper.make_graph([], "all-MiniLM-L6-v2", inputs, [])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="leadline")


class _Bert:
    """Writes BERT's pieces; every method returns the name of the (n, length, 384) tensor it made."""

    def __init__(self, graph: GraphWriter, weights: Weights) -> None:
        self._graph, self._weights = graph, weights

    def embeddings(self) -> str:
        ids, segments, mask = (
            self._graph.node("Cast", [name], f"{name}.int32", to=TensorProto.INT32) for name in INPUTS
        )
        tables = [f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]
        norm = ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias")
        inputs = [ids, segments, *(self._constant(name) for name in (*tables, *norm)), mask]
        # The second output is each row's number of tokens: attention needs no mask of (length, length).
        return self._graph.fused("EmbedLayerNormalization", inputs, "embeddings", "lengths", epsilon=EPSILON)

    def layer(self, prefix: str, hidden: str) -> str:
        attended = self._add_and_norm(f"{prefix}attention.output.", self._attention(prefix, hidden), hidden)
        inner = f"{prefix}intermediate.dense"
        # BiasGelu is the erf form, as in training; FastGelu would be the tanh approximation.
        inputs = [self._product(inner, attended), self._constant(f"{inner}.bias")]
        active = self._graph.fused("BiasGelu", inputs, f"{inner}.gelu")
        return self._add_and_norm(f"{prefix}output.", active, attended)

    def _attention(self, prefix: str, hidden: str) -> str:
        parts = [f"{prefix}attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self._weights[f"{part}.bias"] for part in parts])
        name = f"{prefix}attention.self"
        inputs = [
            hidden,
            self._graph.constant(f"{name}.weight", weight),
            self._graph.constant(f"{name}.bias", bias),
        ]
        return self._graph.fused("Attention", [*inputs, "lengths"], name, num_heads=HEADS)

    def _add_and_norm(self, prefix: str, inner: str, skip: str) -> str:
        names = (f"{prefix}LayerNorm.weight", f"{prefix}LayerNorm.bias", f"{prefix}dense.bias")
        inputs = [self._product(f"{prefix}dense", inner), skip, *(self._constant(name) for name in names)]
        return self._graph.fused("SkipLayerNormalization", inputs, f"{prefix}LayerNorm", epsilon=EPSILON)

    def _product(self, name: str, inner: str) -> str:
        weight = self._graph.constant(f"{name}.weight", self._weights[f"{name}.weight"].T)
        return self._graph.node("MatMul", [inner, weight], name)

    def _constant(self, name: str) -> str:
        return self._graph.constant(name, self._weights[name])

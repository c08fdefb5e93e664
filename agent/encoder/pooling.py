"""From token vectors to one unit vector a text, as nodes inside the graph."""

from __future__ import annotations

from typing import Literal

import numpy as np
from onnx import ModelProto, TensorProto, helper

from agent.encoder.graph import GraphWriter

Pooling = Literal["mean", "cls"]

OUTPUT = "embedding"
TINY = 1e-12  # norms are clamped here, so that a zero vector stays one and is no NaN


def pool_tokens(model: ModelProto, tokens: str, pooling: Pooling) -> None:
    """Append pooling over tensor ``tokens`` (n, length, width) and L2 norm; ``embedding`` becomes the output."""
    graph = GraphWriter(model.graph)
    vectors = graph.node("Cast", [tokens], "leadline.tokens", to=TensorProto.FLOAT)
    pooled = _mean(graph, vectors) if pooling == "mean" else _first(graph, vectors)
    normalise(model, pooled)


def normalise(model: ModelProto, vectors: str) -> None:
    """Append L2 norm over tensor ``vectors`` (n, width); ``embedding`` becomes the only output."""
    graph = GraphWriter(model.graph)
    rows = graph.node("Cast", [vectors], "leadline.pooled", to=TensorProto.FLOAT)
    # Row times column instead of ReduceL2, whose signature changed between opsets.
    row = _reshape(graph, rows, "leadline.row", (0, 1, -1))
    column = _reshape(graph, rows, "leadline.column", (0, -1, 1))
    square = _reshape(graph, graph.node("MatMul", [row, column], "leadline.product"), "leadline.square", (0, 1))
    tiny = graph.constant("leadline.tiny", np.array(TINY, np.float32))
    norm = graph.node("Max", [graph.node("Sqrt", [square], "leadline.root"), tiny], "leadline.norm")
    graph.node("Div", [rows, norm], OUTPUT)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", None]))


def _mean(graph: GraphWriter, vectors: str) -> str:
    # The sum: dividing by the number of tokens would be undone by the norm.
    mask = graph.node("Cast", ["attention_mask"], "leadline.mask", to=TensorProto.FLOAT)
    total = graph.node(
        "MatMul", [_reshape(graph, mask, "leadline.weights", (0, 1, -1)), vectors], "leadline.total"
    )
    return _reshape(graph, total, "leadline.sum", (0, -1))


def _first(graph: GraphWriter, vectors: str) -> str:
    first = graph.constant("leadline.first", np.array(0, np.int64))
    return graph.node("Gather", [vectors, first], "leadline.cls", axis=1)


def _reshape(graph: GraphWriter, tensor: str, name: str, shape: tuple[int, ...]) -> str:
    return graph.node("Reshape", [tensor, graph.constant(f"{name}.shape", np.array(shape, np.int64))], name)

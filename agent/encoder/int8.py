"""A graph's matrix products in 8 bits, with activation scales fixed once: twice as fast on a CPU.

The usual dynamic form takes its scales from the batch at hand, so a text's embedding would change with its
neighbours. Fixed scales do not, and with outlying channels tamed they also agree better with fp32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from agent.encoder.graph import GraphWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    Feed = Mapping[str, NDArray[np.int64]]
    Floats = NDArray[np.float32]

MARGIN = 1.05  # room above the calibrated range
OUTLIER_QUANTILE = 0.99  # channels reaching beyond this quantile of channels are scaled down to it
WORTH_TAMING = 1.2  # below this ratio the extra multiplication is not paid back


@dataclass(frozen=True)
class Range:
    """What a tensor's channels reached over the calibration texts; zero is always inside."""

    low: Floats
    high: Floats


def observe(model: onnx.ModelProto, feeds: Iterable[Feed]) -> dict[str, Range]:
    """The range of every tensor that enters a product with constant weights, over unpadded ``feeds``."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = sorted({node.input[0] for node in model.graph.node if _is_product(node, _weights(model))})
    probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = ort.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    runs = [session.run(names, dict(feed)) for feed in feeds]
    return {name: _range([run[index] for run in runs]) for index, name in enumerate(names)}


def quantise(model: onnx.ModelProto, ranges: Mapping[str, Range]) -> onnx.ModelProto:
    """A copy with int8 products; ``ranges`` as ``observe`` gives them."""
    weights = _weights(model)
    quantised = onnx.ModelProto()
    quantised.CopyFrom(model)
    del quantised.graph.node[:], quantised.graph.initializer[:]
    graph = GraphWriter(quantised.graph)
    replaced = {node.input[1] for node in model.graph.node if _is_product(node, weights)}
    quantised.graph.initializer.extend(t for t in model.graph.initializer if t.name not in replaced)
    for node in model.graph.node:
        if _is_product(node, weights):
            _write_product(graph, node, numpy_helper.to_array(weights[node.input[1]]), ranges[node.input[0]])
        else:
            quantised.graph.node.append(node)
    return quantised


def weight_scales(weight: NDArray[np.floating]) -> Floats:
    """(columns,) scales so that round(weight / scale) fits 8 bits *and* never saturates a pair.

    CPUs without VNNI add two neighbouring uint8 x int8 products in 16 bits. Keeping two neighbours of one sign
    at 128 together keeps 255 x 128 below that limit: the same embedding on every CPU, a quarter of a bit lost.
    """
    pairs = weight.reshape(-1, 2, weight.shape[1])
    same_sign = np.maximum(np.maximum(pairs, 0).sum(1), np.maximum(-pairs, 0).sum(1)).max(0)
    scales: Floats = np.maximum(np.maximum(np.abs(weight).max(0), same_sign) / 127, 1e-12).astype(np.float32)
    return scales


def _write_product(graph: GraphWriter, node: onnx.NodeProto, weight: Floats, reach: Range) -> None:
    tensor, name = node.input[0], node.input[1]
    factors = _taming(reach)
    scale, zero = _activation_scale(Range(reach.low / factors, reach.high / factors))
    if factors.max() > 1:
        factor = graph.constant(f"{name}.factors", 1 / factors)
        tensor = graph.node("Mul", [tensor, factor], f"{name}.tamed")
    scaled = weight * factors[:, None]
    scales = weight_scales(scaled)
    matrix = graph.constant(name, np.round(scaled / scales).astype(np.int8))
    of_weight = [
        graph.constant(f"{name}.scale", scales),
        graph.constant(f"{name}.zero", np.zeros(len(scales), np.int8)),
    ]
    of_input = [graph.constant(f"{name}.input_scale", scale), graph.constant(f"{name}.input_zero", zero)]
    rounded = graph.node("QuantizeLinear", [tensor, *of_input], f"{name}.rounded")
    if node.op_type == "Attention":
        bias, mask = node.input[2:4]
        inputs = [rounded, matrix, bias, of_input[0], of_weight[0], mask, of_input[1], of_weight[1]]
        heads = next(item.i for item in node.attribute if item.name == "num_heads")
        graph.fused("QAttention", inputs, node.output[0], num_heads=heads)
    else:
        inputs = [rounded, matrix, of_input[0], of_weight[0], of_input[1], of_weight[1]]
        graph.fused("MatMulIntegerToFloat", inputs, node.output[0])


def _taming(reach: Range) -> Floats:
    """(channels,) factors >= 1 to divide activations and multiply weights by: exact but for the rounding."""
    size = np.maximum(reach.high, -reach.low)
    factors = np.maximum(1, size / np.quantile(size, OUTLIER_QUANTILE)).astype(np.float32)
    return factors if factors.max() > WORTH_TAMING else np.ones_like(factors)


def _activation_scale(reach: Range) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    low, high = float(reach.low.min()) * MARGIN, float(reach.high.max()) * MARGIN
    scale = (high - low) / 255
    return np.array(scale, np.float32), np.array(round(-low / scale), np.uint8)


def _range(values: list[Floats]) -> Range:
    rows = np.concatenate([value.reshape(-1, value.shape[-1]) for value in values])
    return Range(np.minimum(rows.min(0), 0), np.maximum(rows.max(0), 0))


def _weights(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in model.graph.initializer}


def _is_product(node: onnx.NodeProto, weights: Mapping[str, onnx.TensorProto]) -> bool:
    return node.op_type in {"Attention", "MatMul"} and node.input[1] in weights

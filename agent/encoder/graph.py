"""Writing nodes and constants into an ONNX graph; what the converters share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import GraphProto

CONTRIB = "com.microsoft"  # onnxruntime's own fused operators, part of every build of it


class GraphWriter:
    """Appends to ``graph`` in place. Tensor names are the caller's and must be new to the graph."""

    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Store ``value`` under ``name``, which is returned."""
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        output: str,
        *more: str,
        domain: str = "",
        **attributes: float,
    ) -> str:
        """Append one node; its first output's name is returned."""
        node = helper.make_node(operator, inputs, [output, *more], name=output, domain=domain)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.graph.node.append(node)
        return output

    def fused(self, operator: str, inputs: Sequence[str], output: str, *more: str, **attributes: float) -> str:
        """Append one of onnxruntime's fused operators."""
        return self.node(operator, inputs, output, *more, domain=CONTRIB, **attributes)

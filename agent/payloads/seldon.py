"""Seldon Core 2: Open Inference bodies in topics that say which half they hold, with the id in a header.

A protobuf body is not JSON, and is rejected as that: have the pipeline write JSON.
"""

from __future__ import annotations

from agent.payloads.contract import Kind
from agent.payloads.open_inference import decode

__all__ = ["ID_HEADER", "KINDS", "decode"]

# Endings of `seldon.<namespace>.model.<name>.inputs`, and of a pipeline's topics.
KINDS = {".inputs": Kind.REQUEST, ".outputs": Kind.RESPONSE}
ID_HEADER = "x-request-id"

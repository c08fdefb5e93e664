"""The task model, in three forms: a head on the embeddings, outputs that come with the items, an ONNX model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent.artefacts import sha256_of
from agent.encoder.session import TextSession
from agent.errors import UsageError
from detectors.contract import Outputs

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from agent.encoder.session import Runtime
    from agent.items import Items
    from detectors.contract import Head


class TaskModel(Protocol):
    """Gives the logits of items, and their features where it can."""

    def outputs(self, items: Items, embedding: NDArray[np.float32]) -> Outputs:
        """Row-aligned outputs. A row may hold NaN or infinity if the model gives it: the caller must look."""


@dataclass(frozen=True)
class HeadTask:
    """A linear head on the embeddings, which are its features."""

    head: Head

    def outputs(self, items: Items, embedding: NDArray[np.float32]) -> Outputs:
        """Logits of the head; `items` adds nothing."""
        del items
        return Outputs(embedding, self.head.logits(embedding), embedding)


@dataclass(frozen=True)
class GivenTask:
    """The outputs came with the items, from the model that served them."""

    def outputs(self, items: Items, embedding: NDArray[np.float32]) -> Outputs:
        """The items' own logits and features."""
        return Outputs(embedding, items.logits, items.features)


@dataclass(frozen=True)
class OnnxTask:
    """A task model that Leadline runs itself."""

    session: TextSession
    sha256: str

    @classmethod
    def load(cls, directory: Path, labels: int, runtime: Runtime | None = None) -> Self:
        """The model in a directory with model.onnx and tokenizer.json; UsageError if it gives no such `logits`."""
        session = TextSession.load(directory, runtime=runtime)
        if "logits" not in session.output_names:
            raise UsageError(
                f"{directory}: the task model has outputs {', '.join(session.output_names)}, not `logits`"
            )
        if session.widths["logits"] != labels:
            raise UsageError(
                f"{directory}: the task model gives {session.widths['logits']} logits, "
                f"but the configuration names {labels} labels"
            )
        digest = hashlib.sha256()
        for name in ("model.onnx", "tokenizer.json"):
            digest.update(sha256_of(directory / name).encode())
        return cls(session, digest.hexdigest())

    def outputs(self, items: Items, embedding: NDArray[np.float32]) -> Outputs:
        """The model's `logits` and, if it has them, `features`."""
        found = self.session.run(items.texts, items.pairs).outputs
        return Outputs(embedding, found["logits"], found.get("features"))

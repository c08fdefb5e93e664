"""Encoder and task model together, opened for a reference and checked to be the ones it was fitted with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.encoder import Encoder
from agent.encoder.session import Runtime
from agent.errors import ArtefactError, UsageError
from agent.task import GivenTask, HeadTask, OnnxTask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from agent.config import EncodingConfig
    from agent.items import Items
    from agent.reference import Reference
    from agent.task import TaskModel
    from detectors.contract import Outputs


@dataclass(frozen=True)
class Inference:
    """Items in, outputs out."""

    encoder: Encoder
    task: TaskModel

    def run(
        self, items: Items, on_progress: Callable[[int], None] | None = None
    ) -> tuple[Outputs, NDArray[np.bool_]]:
        """The items' outputs, and which of them were too long for the encoder and were cut."""
        encoded = self.encoder.encode(items.texts, items.pairs, on_progress=on_progress)
        return self.task.outputs(items, encoded.embedding), encoded.truncated


def open_inference(
    reference: Reference, bundle: Path, encoder: Path | None, encoding: EncodingConfig
) -> Inference:
    """The models of the reference in `bundle`; `encoder` says where the encoder is now, if it has moved.

    UsageError if one is not there, ArtefactError if it is another one.
    """
    directory = encoder or bundle / reference.encoder.path
    if not directory.is_dir():
        raise UsageError(
            f"the encoder of reference {bundle} is not at {directory}: "
            "say where it is with `encoder:` in the configuration, or --encoder"
        )
    opened = Encoder.load(directory, threads=encoding.threads, device=encoding.device)
    if opened.sha256 != reference.encoder.sha256:
        raise ArtefactError(
            f"reference {bundle} was fitted with encoder {reference.encoder.name} "
            f"({reference.encoder.sha256[:12]}), but {directory} holds {opened.name} ({opened.sha256[:12]}): "
            "scores would mean nothing. Use that encoder, or run `leadline fit` with this one."
        )
    return Inference(opened, _open_task(reference, bundle, Runtime(encoding.threads, encoding.device)))


def _open_task(reference: Reference, bundle: Path, runtime: Runtime) -> TaskModel:
    if reference.task.outputs == "head" and reference.head is not None:
        return HeadTask(reference.head)
    if reference.task.outputs == "table":
        return GivenTask()
    directory = bundle / reference.task.path
    if not directory.is_dir():
        raise UsageError(
            f"the task model of reference {bundle} is not at {directory}: "
            "move it there, or run `leadline fit` again"
        )
    task = OnnxTask.load(directory, len(reference.labels), runtime)
    if task.sha256 != reference.task.sha256:
        raise ArtefactError(f"{directory} is not the task model that reference {bundle} was fitted with")
    return task

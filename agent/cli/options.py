"""The options of every command that scores a table, and what they open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agent.config import EncodingConfig
from agent.inference import open_inference
from agent.scorer import Scorer

if TYPE_CHECKING:
    from agent.reference import Reference

EncoderPlace = Annotated[Path | None, typer.Option(help="Where the reference's encoder is now, if it moved.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads of the encoder; 0 means every core.")]
Device = Annotated[Literal["auto", "cpu", "gpu"], typer.Option(help="gpu fails rather than use the CPU.")]


def open_scorer(
    loaded: Reference, bundle: Path, encoder: Path | None, threads: int, device: Literal["auto", "cpu", "gpu"]
) -> Scorer:
    """What scores items against the reference in `bundle`; the errors of `open_inference`."""
    encoding = EncodingConfig(threads=threads, device=device)
    return Scorer(loaded, open_inference(loaded, bundle, encoder, encoding))

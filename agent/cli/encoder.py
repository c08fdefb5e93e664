"""`leadline encoder`: get an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from agent.cli.output import console
from agent.encoder.fetch import fetch_encoder

app = typer.Typer(help="Get an encoder.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep `fetch` a command of its own."""


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="Which encoder, for example all-MiniLM-L6-v2.")],
    out: Annotated[Path, typer.Option(help="Directory to write: model.onnx, tokenizer.json, manifest.json.")],
    precision: Annotated[
        Literal["fp32", "int8"],
        typer.Option(help="int8 is smaller and faster on CPUs; the manifest says how close."),
    ] = "fp32",
) -> None:
    """Download official weights, verify them, and write them as ONNX."""
    fetch_encoder(name, out, precision=precision, on_step=lambda step: console.print(f"[dim]{step}[/]"))
    console.print(f"[bold]{out}[/] is ready: name it under `encoder:` in a fit configuration.")

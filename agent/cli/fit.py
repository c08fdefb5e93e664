"""`leadline fit`: freeze a reference."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from agent.bundle import check_place, load_reference, save_reference
from agent.cli.card import backtest_facts, show_card
from agent.cli.output import JsonFile, bars, console, write_facts
from agent.config import FitConfig, load_config
from agent.encoder import Encoder
from agent.fit import fit as fit_reference
from agent.freeze import SOURCE

if TYPE_CHECKING:
    from agent.reference import Reference


def fit(
    config: Annotated[Path, typer.Argument(help="The fit configuration, YAML.")],
    out: Annotated[Path, typer.Option(help="Directory to write the reference to.")],
    json: JsonFile = None,
) -> None:
    """Fit detectors, calibration and the estimator of the accuracy drop, and freeze them into a reference.

    Ends with how far its estimates can be trusted, from domains that were left out.

    Example: leadline fit fit.yaml --out reference
    """
    checked = load_config(config, FitConfig)
    check_place(out)
    encoder = Encoder.load(checked.encoder, threads=checked.encoding.threads, device=checked.encoding.device)
    with bars() as progress:
        reference = fit_reference(checked, encoder, out, progress)
    save_reference(reference, out)
    saved = load_reference(out)
    _show(saved, out)
    write_facts(json, facts_of(saved) | backtest_facts(saved))


def facts_of(reference: Reference) -> dict[str, Any]:
    """The facts of a reference that `--json` writes."""
    return {
        "id": reference.id,
        "model": reference.model,
        "task": reference.task.kind,
        "labels": list(reference.labels),
        "encoder": asdict(reference.encoder),
        "rows": dict(reference.source.rows),
        "accuracy": dict(reference.source.accuracy),
        "temperature": asdict(reference.temperature),
        "detectors": list(reference.detectors),
        "unavailable": dict(reference.unavailable),
        "shift": {domain.name: dict(domain.shift) for domain in reference.domains},
    }


def _show(reference: Reference, out: Path) -> None:
    console.print(_source_table(reference))
    for name, reason in reference.unavailable.items():
        console.print(f"[yellow]{name} is not available:[/] {reason}")
    if reference.temperature.bounded:
        console.print("[yellow]The temperature hit its bound: the model's confidence says little.[/]")
    show_card(reference)
    console.print(f"Reference [bold]{reference.id}[/] is in [bold]{out}[/].")


def _source_table(reference: Reference) -> Table:
    table = Table(title=f"Source of {reference.model}", title_justify="left")
    for heading in ("split", "rows", "accuracy"):
        table.add_column(heading, justify="left" if heading == "split" else "right")
    for split in SOURCE:
        table.add_row(split, f"{reference.source.rows[split]:,}", f"{reference.source.accuracy[split]:.3f}")
    return table

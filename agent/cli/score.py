"""`leadline score`: score a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table

from agent.bundle import load_reference
from agent.cli.options import Device, EncoderPlace, Threads, open_scorer
from agent.cli.output import Bundle, JsonFile, bars, console, write_facts
from agent.score_table import score_table
from agent.tables import check_output, read_table, write_table
from detectors.calibration import OOD_P_VALUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agent.reference import Reference


def score(  # noqa: PLR0913, PLR0917 - the options of a command
    reference: Bundle,
    table: Annotated[Path, typer.Argument(help="Items to score: .parquet, .csv or .jsonl with a `text` column.")],
    out: Annotated[Path, typer.Option(help="Table to write: .parquet, .csv or .jsonl.")],
    encoder: EncoderPlace = None,
    threads: Threads = 0,
    device: Device = "auto",
    json: JsonFile = None,
) -> None:
    """Score every item of a table: prediction, confidence, and each detector's score and p-value.

    Higher scores are more in-distribution. `ood` is true where the primary detector's p-value is 0.05 or less.
    """
    check_output(out)  # now rather than after the scoring
    loaded = load_reference(reference)
    scorer = open_scorer(loaded, reference, encoder, threads, device)
    items = read_table(table)
    with bars() as progress:
        columns = score_table(scorer, items, lambda done: progress("score", done, len(items)))
    write_table(out, columns)
    ratios = {
        name: float((columns[f"p_{name}"].astype(np.float64) <= OOD_P_VALUE).mean()) for name in loaded.detectors
    }
    _show(loaded, columns, ratios)
    console.print(f"{len(items):,} rows are in [bold]{out}[/].")
    write_facts(json, {"n": len(items), "ood": ratios, "depth_mean": float(columns["depth"].astype(float).mean())})


def _show(reference: Reference, columns: dict[str, NDArray[np.generic]], ratios: dict[str, float]) -> None:
    table = Table(title=f"Scores against {reference.id}", title_justify="left")
    table.add_column("detector")
    for heading in ("median score", "OOD ratio"):
        table.add_column(heading, justify="right")
    for name, ratio in ratios.items():
        mark = " (primary)" if name == reference.primary else ""
        table.add_row(name + mark, f"{np.median(columns[f'score_{name}'].astype(float)):.4g}", f"{ratio:.3f}")
    console.print(table)

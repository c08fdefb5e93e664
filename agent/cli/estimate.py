"""`leadline estimate`: the accuracy lost on a table without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from agent.bundle import load_reference
from agent.cli.options import Device, EncoderPlace, Threads, open_scorer
from agent.cli.output import Bundle, JsonFile, bars, console, points, write_facts
from agent.estimation import Estimator
from agent.score_table import items_of
from agent.tables import read_table

if TYPE_CHECKING:
    from agent.report import DropEstimate


def estimate(  # noqa: PLR0913, PLR0917 - the options of a command
    reference: Bundle,
    table: Annotated[Path, typer.Argument(help="Items without labels: .parquet, .csv or .jsonl.")],
    encoder: EncoderPlace = None,
    threads: Threads = 0,
    device: Device = "auto",
    json: JsonFile = None,
) -> None:
    """Estimate how much accuracy the model loses on a table, without a label of it.

    Where nothing can be said, says why and ends with exit code 1.
    Example: leadline estimate reference new.csv
    """
    loaded = load_reference(reference)
    scorer = open_scorer(loaded, reference, encoder, threads, device)
    items = items_of(loaded, read_table(table))
    with bars() as progress:
        scored = scorer.score(items, lambda done: progress("score", done, len(items)))
    found = Estimator(loaded).of_scored(scored, items.texts)
    lost = len(items) - found.n
    if lost:
        console.print(f"[yellow]{lost:,} of {len(items):,} rows are left out:[/] the models gave NaN or infinity.")
    _show(found)
    write_facts(json, facts_of(found))
    if found.reason:
        raise typer.Exit(1)


def facts_of(found: DropEstimate) -> dict[str, Any]:
    """The facts of an estimate that `--json` writes; null where nothing can be said."""
    return {
        "n": found.n,
        "drop": {
            "estimate": found.drop.estimate,
            "low": found.drop.low,
            "high": found.drop.high,
            "level": found.level,
        },
        "accuracy": {"estimate": found.accuracy.estimate, "low": found.accuracy.low, "high": found.accuracy.high},
        "methods": {name: {"metric": metric, "drop": drop} for name, (metric, drop) in found.methods.items()},
        "inside_domains": found.inside_domains,
        "outside": list(found.outside),
        "q": found.metrics.get("q"),
        "ood": {name.removeprefix("ood_"): v for name, v in found.metrics.items() if name.startswith("ood_")},
        "reason": found.reason,
    }


def _show(found: DropEstimate) -> None:
    if found.reason:
        console.print(f"[yellow]Cannot say how much accuracy is lost:[/] {escape(found.reason)}.")
        return
    drop, accuracy = found.drop, found.accuracy
    console.print(
        f"Estimated drop on {found.n:,} items: [bold]{points(drop.estimate, drop.low, drop.high)}[/] points "
        f"({found.level:.0%} interval), so an accuracy of {accuracy.estimate:.3f} "
        f"\\[{accuracy.low:.3f}, {accuracy.high:.3f}]."
    )
    if not found.inside_domains:
        console.print(
            f"[yellow]Outside the fitted domains[/] (by {', '.join(found.outside)}): these items are not like the "
            "source nor like any reference domain, so the interval may be too narrow. Labels would tell."
        )
    table = Table(title="What each method says alone, in points", title_justify="left")
    table.add_column("method")
    for heading in ("metric", "drop"):
        table.add_column(heading, justify="right")
    for name, (metric, alone) in found.methods.items():
        table.add_row(name, f"{metric:.3f}".replace("nan", ""), f"{100 * alone:+.1f}")
    console.print(table)

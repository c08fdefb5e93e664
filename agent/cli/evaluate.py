"""`leadline evaluate`: what the labels of a table say."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from agent.bundle import load_reference
from agent.cli.estimate import facts_of as estimate_facts
from agent.cli.options import Device, EncoderPlace, Threads, open_scorer
from agent.cli.output import Bundle, JsonFile, bars, console, write_facts
from agent.estimation import Estimator
from agent.evaluate import evaluate as evaluated
from agent.evaluate import labelled_items
from agent.tables import read_table
from agent.target_score import FOLDS
from exporters.evaluation_words import answer, number, percent, points
from exporters.html_report import check_report_place, write_report

if TYPE_CHECKING:
    from agent.evaluation_report import Evaluation
    from agent.interval import Interval

COLOURS = {"worse": "red", "better": "green", "same": "yellow"}


def evaluate(  # noqa: PLR0913, PLR0917 - the options of a command
    reference: Bundle,
    table: Annotated[Path, typer.Argument(help="Labelled items: .parquet, .csv or .jsonl with `text`, `label`.")],
    html: Annotated[Path | None, typer.Option(help="Also write a report with plots, one HTML file.")] = None,
    encoder: EncoderPlace = None,
    threads: Threads = 0,
    device: Device = "auto",
    json: JsonFile = None,
) -> None:
    """Say how well the model does on a labelled table, how much was lost, and whether retraining would help.

    Example: leadline evaluate reference labelled.parquet --html report.html
    """
    if html is not None:
        check_report_place(html)  # now rather than after the scoring
    loaded = load_reference(reference)
    read = read_table(table)
    labelled = labelled_items(loaded, read)
    scorer = open_scorer(loaded, reference, encoder, threads, device)
    with bars() as progress:
        scored = scorer.score(labelled.items, lambda done: progress("score", done, len(labelled)))
        evaluation = evaluated(
            loaded,
            labelled,
            scored,
            read.ids(),
            estimate=Estimator(loaded).of_scored(scored, labelled.items.texts),
            on_fold=lambda done: progress("train on this table", done, FOLDS),
        )
    _show(evaluation)
    if html is not None:
        write_report(evaluation, html)
        console.print(f"The report is in [bold]{escape(str(html))}[/].")
    write_facts(json, facts_of(evaluation))


def facts_of(evaluation: Evaluation) -> dict[str, Any]:
    """The facts of an evaluation that `--json` writes."""
    depth, target = evaluation.depth, evaluation.target
    facts: dict[str, Any] = {
        "n": evaluation.n,
        "accuracy": evaluation.accuracy.estimate,
        "macro_f1": evaluation.macro_f1,
        "depth_f1": {str(point.percentile): point.micro.estimate for point in depth.points},
        "depth_f1_macro": {str(point.percentile): point.macro for point in depth.points},
        "clipped_weights": depth.clipped,
        "q": depth.q,
        "sd": evaluation.sd.estimate,
    }
    if target is not None:
        facts |= {
            "tt": target.tt.estimate,
            "td": target.td.estimate,
            "idd": target.idd.estimate,
            "scenario": target.scenario,
            "scenario_meaning": target.meaning,
        }
    facts |= {
        "ss": evaluation.source_accuracy.estimate,
        "ss_rows": evaluation.source_rows,
        "intervals": {"level": evaluation.level} | {name: _bounds(each) for name, each in _intervals(evaluation)},
        "ece": {each.name: each.ece for each in evaluation.calibrations},
        "ood": {each.name: each.ood_ratio for each in evaluation.detectors},
        "reasons": {
            name: reason
            for name, reason in (("depth_f1", depth.reason), ("tt", evaluation.target_reason))
            if reason
        },
    }
    return facts if evaluation.estimate is None else facts | {"estimate": estimate_facts(evaluation.estimate)}


def _intervals(evaluation: Evaluation) -> list[tuple[str, Interval]]:
    found = [("accuracy", evaluation.accuracy), ("ss", evaluation.source_accuracy), ("sd", evaluation.sd)]
    if evaluation.target is not None:
        found += [("tt", evaluation.target.tt), ("td", evaluation.target.td), ("idd", evaluation.target.idd)]
    return found


def _bounds(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high}


def _show(evaluation: Evaluation) -> None:
    told = answer(evaluation)
    console.print(f"[bold {COLOURS[told.mood]}]{escape(told.headline)}[/]")
    for line in (told.certainty, told.meaning, told.estimate):
        if line:
            console.print(escape(line))
    console.print(_table(evaluation))
    if evaluation.depth.reason:
        console.print(f"[yellow]Depth F1 cannot be said:[/] {escape(evaluation.depth.reason)}.")
    elif evaluation.depth.clipped:
        console.print(
            f"{evaluation.depth.clipped:,} items lie deeper than any of the source and weigh nothing in Depth F1."
        )


def _table(evaluation: Evaluation) -> Table:
    table = Table(
        title=escape(f"{evaluation.model} on {evaluation.table}, n = {evaluation.n:,}"), title_justify="left"
    )
    table.add_column("")
    for heading in ("value", "low", "high"):
        table.add_column(heading, justify="right")
    for name, interval in _intervals(evaluation):
        form = percent if name in {"accuracy", "ss", "tt"} else points
        table.add_row(NAMES[name], form(interval.estimate), form(interval.low), form(interval.high))
    table.add_section()
    table.add_row("macro-F1", percent(evaluation.macro_f1))
    for point in evaluation.depth.points:
        left = f"the {point.items:,} least alike" if point.percentile else "all items"
        table.add_row(f"Depth F1, λ {point.percentile}: {left}", *(percent(each) for each in astuple(point.micro)))
    table.add_row("Q: 0.5 like the source, 0 unlike", number(evaluation.depth.q))
    primary = evaluation.detectors[0]
    table.add_row(f"out of distribution by {primary.name}", percent(primary.ood_ratio))
    return table


NAMES = {
    "accuracy": "accuracy (ST)",
    "ss": "accuracy on the source (SS)",
    "sd": "drop (SD), points",
    "tt": "accuracy if trained here (TT)",
    "td": "won back by that (TD), points",
    "idd": "harder by itself (IDD), points",
}

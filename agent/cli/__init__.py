"""The command line: one module a command."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from agent.cli import (
    annotate,
    annotate_import,
    backtest,
    check,
    demo,
    encoder,
    estimate,
    evaluate,
    fit,
    run,
    score,
)
from agent.cli.output import complain, console
from agent.errors import LeadlineError

app = typer.Typer(
    name="leadline",
    help="Tells, without labels, when drift is costing a text classifier accuracy.",
    epilog="Exit codes: 0 done, 1 a check failed, 2 bad usage or configuration, "
    "3 an artefact failed verification, 4 a service could not be reached.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.add_typer(encoder.app, name="encoder")
app.command("fit")(fit.fit)
app.command("score")(score.score)
app.command("estimate")(estimate.estimate)
app.command("evaluate")(evaluate.evaluate)
app.command("backtest")(backtest.backtest)
app.command("run")(run.run)
annotate.app.command("import")(annotate_import.import_labels)
app.add_typer(annotate.app, name="annotate")
app.command("check")(check.check)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it with the flag
    if asked:
        console.print(f"leadline {version('leadline')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Tells, without labels, when drift is costing a text classifier accuracy."""
    del show_version


def main() -> None:
    """Run a command; an error that a person can mend ends it in plain words and with its exit code."""
    try:
        app()
    except LeadlineError as error:
        complain(error)
        sys.exit(error.exit_code)

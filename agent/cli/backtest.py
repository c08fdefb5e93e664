"""`leadline backtest`: how far the estimates against a reference can be trusted."""

from __future__ import annotations

import typer

from agent.bundle import load_reference
from agent.cli.card import backtest_facts, show_card
from agent.cli.output import Bundle, JsonFile, write_facts


def backtest(
    reference: Bundle,
    json: JsonFile = None,
) -> None:
    """Show how every estimator did on the reference domains, each one left out in turn.

    Exit code 1 if the reference cannot estimate a drop. Example: leadline backtest reference
    """
    loaded = load_reference(reference)
    show_card(loaded)
    write_facts(json, backtest_facts(loaded))
    if loaded.trust.refusal:
        raise typer.Exit(1)

"""The estimator card: how far the estimates against a reference can be trusted."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from agent.cli.output import console, points
from agent.methods import AGREEMENT, ENSEMBLE, MEAN, backtested
from detectors.intervals import LEVEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.methods import Errors
    from agent.reference import Domain, Reference


def backtest_facts(reference: Reference) -> dict[str, Any]:
    """The facts of a backtest that `--json` writes."""
    trust = reference.trust
    return {
        "methods": {name: asdict(errors) for name, errors in backtested(reference).items()},
        "coverage": {"level": LEVEL, "observed": _covered(reference), "n": len(_left_out(reference))},
        "panel_coverage": {"level": LEVEL, "observed": trust.covered, "n": trust.checked},
        "half_width": trust.error,
        "reason": trust.refusal,
        "domains": [
            {
                "name": domain.name,
                "n": domain.n,
                "accuracy": domain.accuracy,
                "drop": domain.drop,
                **dict(zip(("predicted", "low", "high"), domain.left_out or (None,) * 3, strict=True)),
            }
            for domain in reference.domains
        ],
    }


def show_card(reference: Reference) -> None:
    """Print what each reference domain shows, what each method is off by, and what that means."""
    trust, errors = reference.trust, backtested(reference)
    if reference.domains:
        console.print(_domains(reference))
        console.print(_methods(errors))
    if trust.refusal:
        console.print(f"[yellow]No drop can be estimated:[/] {escape(trust.refusal)}.")
        return
    console.print(
        f"On a domain it has not seen, the estimate is good to [bold]\u00b1 {100 * trust.error:.1f} points[/] "
        f"({LEVEL:.0%} interval, for about {trust.items:,.0f} items)."
    )
    left_out = _left_out(reference)
    console.print(
        f"Of the {len(left_out)} domains, each left out in turn, {sum(map(_inside, left_out))} had their drop "
        f"within its interval; of {trust.checked} such checks on heads of single domains, {trust.covered:.0%} had."
    )
    used = AGREEMENT if reference.estimator is not None else ENSEMBLE
    if not errors[used].mae < errors[MEAN].mae:
        console.print(
            f"[yellow]The estimate ({used}) is no better than the mean drop of the domains:[/] they are too few, "
            "or too much alike. Add labelled domains before you rely on it."
        )


def _left_out(reference: Reference) -> list[Domain]:
    """The domains whose drop was estimated without them."""
    return [domain for domain in reference.domains if domain.left_out is not None]


def _inside(domain: Domain) -> bool:
    """Whether the drop lies within the interval that was estimated without this domain."""
    return domain.left_out is not None and domain.left_out[1] <= domain.drop <= domain.left_out[2]


def _covered(reference: Reference) -> float:
    """Share of the domains left out whose drop lies within its interval; NaN without any."""
    left_out = _left_out(reference)
    return sum(map(_inside, left_out)) / len(left_out) if left_out else float("nan")


def _domains(reference: Reference) -> Table:
    """The reference domains, the one nearest to the source first."""
    table = Table(title="Reference domains, the nearest to the source first", title_justify="left")
    table.add_column("domain")
    for heading in ("rows", "accuracy", "drop", f"estimated without it, {LEVEL:.0%}", "PAD", "OOD", "Q"):
        table.add_column(heading, justify="right")
    for domain in sorted(reference.domains, key=lambda item: item.shift["pad"]):
        estimate = "-" if domain.left_out is None else points(*domain.left_out)
        table.add_row(
            domain.name,
            f"{domain.n:,}",
            f"{domain.accuracy:.3f}",
            f"{100 * domain.drop:+.1f}",
            estimate,
            f"{domain.shift['pad']:.2f}",
            f"{domain.shift[f'ood_{reference.primary}']:.2f}",
            f"{domain.shift['q']:.2f}",
        )
    return table


def _methods(methods: Mapping[str, Errors]) -> Table:
    """What each method was off by on domains left out, the best first."""
    table = Table(title="Errors on domains left out, in points", title_justify="left")
    table.add_column("method")
    for heading in ("mean", "max"):
        table.add_column(heading, justify="right")
    for name, errors in methods.items():
        table.add_row(name, *(f"{100 * value:.1f}".replace("nan", "-") for value in (errors.mae, errors.max)))
    return table

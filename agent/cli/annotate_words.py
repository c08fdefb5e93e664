"""A verdict and an offered version in words, on the console, and as the facts that `--json` writes."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from agent.cli.output import console
from detectors.robustness import Scenario
from exporters.evaluation_words import percent, points

if TYPE_CHECKING:
    from pathlib import Path

    from agent.interval import Interval
    from agent.new_version import Offer, Standing
    from agent.reference import Reference
    from agent.verdict_report import Verdict


def show(told: Verdict) -> None:
    """The answer first, then the reason, then every number."""
    realised = told.realised
    console.print(answer(told))
    console.print(escape(meaning(told)))
    if sentence := estimate_held(told):
        console.print(escape(sentence))
    console.print(_table(told))
    if told.left:
        console.print(
            f"{realised.labelled:,} of {realised.asked:,} items are labelled. Those that are not are taken to be "
            "missing by chance, within items of like depth."
        )
    if told.empty_strata:
        console.print(
            f"[yellow]{told.empty_strata} strata have no label yet[/] and were taken together with the nearest."
        )


def answer(told: Verdict) -> str:
    """Whether the drift costs more than the limit, for the console."""
    limit, drop = f"{100 * told.limit:g} points", told.realised.combined
    size = f"{points(drop.estimate)} points, {told.level:.0%} interval {_span(drop)}"
    if told.answer == "harmful":
        return f"[bold red]Yes, the drift costs more than {limit}:[/] {size}."
    if told.answer == "harmless":
        return f"[bold green]No, the drift does not cost more than {limit}:[/] {size}."
    reasons = " ".join(filter(None, (f"{size}.", _early(told), _more(told))))
    return f"[bold yellow]Cannot tell yet whether the drift costs more than {limit}:[/] {reasons}"


def _early(told: Verdict) -> str:
    """By which interval it is judged while labels are missing."""
    realised = told.realised
    if realised.labelled >= realised.asked:
        return ""
    return (
        f"While {realised.labelled:,} of {realised.asked:,} labels are back, the interval is taken wider, as "
        f"{_span(realised.judged)}, so that you can ask after every label."
    )


def _more(told: Verdict) -> str:
    """What would tell."""
    if told.more is None:
        return f"{told.more_reason}."
    if told.more <= told.left:
        return f"About {told.more:,} more label{'s' * (told.more > 1)} would tell."
    if told.left:
        return (
            f"About {told.more:,} more labels would tell; {told.left:,} items of this batch are left, "
            "so a later batch has to give the rest."
        )
    return f"About {told.more:,} more labels would tell, and this batch has none left: wait for another one."


def meaning(told: Verdict) -> str:
    """Whether retraining on these items would help."""
    target = told.target
    if target is None:
        return f"Whether retraining would help cannot be told: {told.target_reason}."
    back = f"{points(target.td.estimate)} points {_span(target.td)}"
    if target.scenario in {Scenario.CLASSIC, Scenario.UNOBSERVED}:
        return f"{target.meaning} It would bring back about {back}."
    if target.scenario == Scenario.TIE:
        return (
            f"Whether retraining would help cannot be told yet: a model trained on these items alone wins {back}."
        )
    return target.meaning


def estimate_held(told: Verdict) -> str:
    """What had been estimated without labels, and whether that was right."""
    estimated = told.realised.estimated
    if not isfinite(estimated.estimate):
        return ""
    said = f"Estimated without labels: {points(estimated.estimate)} points {_span(estimated)}"
    if told.held is None:
        return f"{said}; the labels do not tell yet whether that interval held."
    return f"{said}; the interval {'held' if told.held else 'did not hold: the estimate was wrong'}."


def _span(interval: Interval) -> str:
    return f"[{points(interval.low)}, {points(interval.high)}]"


def _table(told: Verdict) -> Table:
    realised, target = told.realised, told.target
    table = Table(
        title=escape(f"Slice {realised.slice}, episode {realised.episode}, {realised.labelled:,} labels"),
        title_justify="left",
    )
    table.add_column("")
    for heading in ("value", "low", "high"):
        table.add_column(heading, justify="right")
    rows: list[tuple[str, Interval, bool]] = [
        ("accuracy on the source (SS)", told.source, True),
        ("accuracy by the labels (ST)", told.accuracy, True),
        ("accuracy by labels and predictions", told.combined, True),
        ("drop by the labels (SD), points", realised.drop, False),
        ("drop by labels and predictions, points", realised.combined, False),
    ]
    if target is not None:
        rows += [
            ("accuracy if trained here (TT)", target.tt, True),
            ("won back by that (TD), points", target.td, False),
            ("harder by itself (IDD), points", target.idd, False),
        ]
    for point in told.depth:
        least = f"the {point.items:,} least alike" if point.percentile else "all items"
        rows.append((f"Depth F1, λ {point.percentile}: {least}", point.micro, True))
    for name, interval, share in rows:
        form = percent if share else points
        table.add_row(name, form(interval.estimate), form(interval.low), form(interval.high))
    return table


def facts_of(told: Verdict, reference: Reference) -> dict[str, Any]:
    """The facts of a verdict; the keys are always the same, null where nothing can be said."""
    realised, target = told.realised, told.target
    robustness = {
        "sd": _bounds(realised.drop),
        "tt": None if target is None else _bounds(target.tt),
        "td": None if target is None else _bounds(target.td),
        "idd": None if target is None else _bounds(target.idd),
        "scenario": None if target is None else target.scenario,
        "scenario_meaning": None if target is None else target.meaning,
    }
    return {
        "episode": realised.episode,
        "slice": realised.slice,
        "reference_id": reference.id,
        "asked": realised.asked,
        "labelled": realised.labelled,
        "effective_items": told.items,
        "empty_strata": told.empty_strata,
        "level": told.level,
        "source_accuracy": _bounds(told.source),
        "accuracy": _bounds(told.accuracy),
        "drop": _bounds(realised.drop),
        "combined": {
            "accuracy": _bounds(told.combined),
            "drop": _bounds(realised.combined),
            "power": told.power,
        },
        "judged": _bounds(realised.judged),
        "estimated": _bounds(realised.estimated)
        | {"level": told.estimated_level, "error": realised.error, "held": told.held},
        "depth_f1": {str(point.percentile): _bounds(point.micro) for point in told.depth},
        **robustness,
        "max_drop": told.limit,
        "verdict": told.answer,
        "more_labels": told.more,
        "reasons": {
            name: reason
            for name, reason in (
                ("depth_f1", told.depth_reason),
                ("tt", told.target_reason),
                ("more_labels", told.more_reason),
            )
            if reason
        },
    }


def _bounds(interval: Interval) -> dict[str, float]:
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def show_offer(offer: Offer, told: Verdict, out: Path | None) -> None:
    """The old version against the new one, and which of them to use."""
    table = Table(
        title=f"Old and new version on the {len(offer.common)} domains that both know", title_justify="left"
    )
    table.add_column("")
    for heading in ("old", "new"):
        table.add_column(heading, justify="right")
    for name, form in _ROWS.items():
        table.add_row(name, form(offer.old), form(offer.new))
    console.print(table)
    if isfinite(offer.error):
        console.print(
            f"On this window the old version is off by {points(offer.error)} points "
            f"(estimated less realised, of {told.realised.labelled:,} labels)."
        )
    console.print(_learnt(offer, told.realised.labelled))
    if offer.worse:
        console.print(f"[bold yellow]The new version is worse:[/] {offer.worse}.")
    elif offer.old.errors:
        console.print("On the domains that both know, the new version does no worse than chance would explain.")
    if out is None:
        console.print("It was not written. Gather more labels, or write it all the same with --force.")
    else:
        console.print(
            f"The new version is in [bold]{escape(str(out))}[/]. To use it, name it as `reference` and start the "
            "agent again. It then begins new windows, and puts the state of the old version aside: "
            "`leadline check` says so too."
        )


def _learnt(offer: Offer, labelled: int) -> str:
    said = f"The estimator learnt from {offer.rows:,} labelled items of this window: {offer.domain}."
    if offer.rows >= labelled:
        return said
    return (
        f"{said} The other {labelled - offer.rows:,} are left out: some parts of the window, such as the items "
        "least like the source, were asked about more often, and may count for no more than their share."
    )


def _covered(standing: Standing) -> str:
    return f"{standing.covered} of {len(standing.errors)}" if standing.errors else "n/a"


_ROWS = {
    "error on a domain left out, mean, points": lambda standing: points(standing.mae).lstrip("+"),
    "the same, largest": lambda standing: points(standing.max).lstrip("+"),
    "intervals that held": _covered,
}


def offer_facts(offer: Offer, identity: str) -> dict[str, Any]:
    """The facts of an offered version; `id` is null where it was not written."""
    parent = offer.reference.earlier[-1]
    return {
        "id": identity or None,
        "parent": parent.id,
        "domain": offer.domain,
        "rows": offer.rows,
        "written": bool(identity),
        "worse": offer.worse or None,
        "common_domains": list(offer.common),
        "old": _standing(offer.old),
        "new": _standing(offer.new),
        "window_error": offer.error,
    }


def _standing(standing: Standing) -> dict[str, float]:
    return {
        "mae": standing.mae,
        "max": standing.max,
        "covered": standing.covered,
        "domains": len(standing.errors),
    }

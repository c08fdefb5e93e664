"""The tables of docs/benchmarks/drop.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from drop_constants import SHIPPED, nested, on_both, on_whole
from drop_methods import DIRECT, ENSEMBLE, LABELS, LEVEL_TEXT, MEAN, OURS, Tally, direct, percent, points, tallies
from workbench import markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from drop_constants import Constants, Errors
    from drop_methods import Row

# The paper's tables 1 and 2: MAE with its standard deviation, and the largest MAE of a source, in points.
PUBLISHED: Mapping[str, str] = {
    MEAN: "5.2 ±2.02 (12.77)",
    "RCA": "2.88 ±1.31 (7.17)",
    "RCA*": "2.92 ±1.39 (7.42)",
    "CONF": "2.85 ±1.69 (8.86)",
    "CONF_CALIB": "2.67 ±1.49 (8.13)",
    "PAD": "2.51 ±1.54 (8.16)",
    "PAD*": "2.15 ±0.88 (4.64)",
    ENSEMBLE: "2.22 ±0.9 (5.02)",
}
PUBLISHED_TAGGED: Mapping[str, str] = {
    MEAN: "4.35 ±2.31 (10.79)",
    "RCA": "3.63 ±1.95 (9.56)",
    "RCA*": "3.67 ±1.93 (8.44)",
    "CONF": "2.88 ±1.16 (5.5)",
    "CONF_CALIB": "2.81 ±1.09 (5.48)",
    "PAD": "4.35 ±2.31 (10.79)",
    "PAD*": "4.6 ±2.14 (10.77)",
    ENSEMBLE: "3.02 ±0.98 (5.88)",
}
# What was aimed at.
SHARE_OF_MEAN, COVERED = 1 / 2, (0.88, 0.92)
COVERAGE = f"coverage of {LEVEL_TEXT}"


def all_shifts(rows: Sequence[Row]) -> str:
    """Every method, ours first, and whether the goals are reached."""
    found = {method: tally for (_, method), tally in tallies(rows).items()}
    names = [OURS, MEAN, *LABELS.values(), ENSEMBLE, *(direct(LABELS[name]) for name in DIRECT)]
    header = ("method", "MAE", "max of a source", "max of a shift", COVERAGE, "half width", "paper: MAE (max)")
    return goals(found) + "\n" + markdown(header, [_method(name, found[name]) for name in names])


def _method(name: str, tally: Tally) -> tuple[str, ...]:
    return (
        name,
        spread(tally),
        points(tally.by_source.max()),
        points(tally.errors.max(), 1),
        percent(tally.coverage, 1),
        points(tally.half, 1),
        PUBLISHED.get(name, ""),
    )


def spread(tally: Tally) -> str:
    """MAE with its standard deviation across sources."""
    return f"{points(tally.mae)} ±{points(tally.by_source.std(ddof=1))}"


def goals(found: Mapping[str, Tally]) -> str:
    """What was aimed at, and whether it is reached."""
    ours = found[OURS]
    best = min((name for name in found if name != OURS), key=lambda name: found[name].mae)
    share = ours.mae / found[MEAN].mae
    low, high = COVERED
    lowest = f"The lowest MAE: {points(ours.mae)}, the next is {best} with {points(found[best].mae)}"
    lines = {
        lowest: ours.mae < found[best].mae,
        f"At most {percent(SHARE_OF_MEAN)} of Mean's MAE: {percent(share, 1)}": share <= SHARE_OF_MEAN,
        f"{percent(low)} to {percent(high)} covered: {percent(ours.coverage, 1)}": low <= ours.coverage <= high,
    }
    return "".join(f"- {text}: **{'reached' if fact else 'not reached'}**.\n" for text, fact in lines.items())


def backtest(rows: Sequence[Row], said: float) -> str:
    """Its errors, and how often its intervals hold beside how often it says they do."""
    tally = Tally.of(rows)
    return (
        f"Of one fit over all {len(tally.by_source)} domains, each left out in turn: MAE {points(tally.mae)}, "
        f"coverage {percent(tally.coverage, 1)} over {len(tally.errors)} shifts. By its own models the fit says "
        f"{percent(said, 1)}.\n"
    )


def by_case(rows: Sequence[Row], what: str, methods: Sequence[str], covered: Sequence[str] = (OURS,)) -> str:
    """MAE of some methods in every case; of some how often their intervals hold; ours' half width."""
    found = tallies(rows)
    header = (
        what,
        *methods,
        *(f"{COVERAGE}, {name}" if len(covered) > 1 else COVERAGE for name in covered),
        "half width, ours",
    )
    lines = [
        (
            case,
            *(points(found[case, name].mae) for name in methods),
            *(percent(found[case, name].coverage) for name in covered),
            points(found[case, OURS].half, 1),
        )
        for case in dict.fromkeys(case for case, _ in found)
    ]
    return markdown(header, lines)


def sources(rows: Sequence[Row], what: str, methods: Sequence[str]) -> str:
    """MAE of some methods in every case, and in brackets that of the source where it is largest."""
    found = tallies(rows)
    lines = []
    for case in dict.fromkeys(case for case, _ in found):
        each = [found[case, name] for name in methods]
        lines.append((case, *(f"{points(one.mae)} ({points(one.by_source.max(), 1)})" for one in each)))
    return markdown((what, *methods), lines)


def sizes(rows: Sequence[Row]) -> str:
    """Ours by the size of the window."""
    lines = [
        (case, points(tally.mae), points(tally.errors.max(), 1), percent(tally.coverage, 1), points(tally.half, 1))
        for (case, _), tally in tallies(rows).items()
    ]
    return markdown(("items", "MAE", "max of a shift", COVERAGE, "half width"), lines)


def adversarial(rows: Sequence[Row], plain: str, tagged: str) -> str:
    """Every method on the same rows with and without tags."""
    found = tallies(rows)
    names = [OURS, MEAN, *LABELS.values(), ENSEMBLE]
    lines = [
        (
            name,
            spread(found[plain, name]),
            spread(found[tagged, name]),
            points(found[tagged, name].by_source.max()),
            percent(found[tagged, name].coverage, 1),
            PUBLISHED_TAGGED.get(name, ""),
        )
        for name in names
    ]
    header = (
        "method",
        plain,
        tagged,
        "max of a source, tagged",
        f"{COVERAGE}, tagged",
        "paper, tagged: MAE (max)",
    )
    return markdown(header, lines)


def constants(found: Mapping[Constants, Errors]) -> str:
    """The errors with every choice, and with a choice made for each target on the others."""
    lines = [(_named(choice) + " (ours)" * (choice == SHIPPED), *_errors(each)) for choice, each in found.items()]
    told = []
    for name, cost in (("whole domains", on_whole), ("both", on_both)):
        honest, chosen = nested(found, cost)
        lines.append((f"chosen for each target by {name} of the others", *_errors(honest)))
        told.append(f"by {name} {', '.join(f'{_named(choice)} for {times}' for choice, times in chosen.items())}")
    table = markdown(("CHANGED and NEARNESS", "whole domains", "other class ratios"), lines)
    return f"{table}\nChosen: {'; '.join(told)} of the targets.\n"


def _named(choice: Constants) -> str:
    return f"{choice.changed:g} and {choice.nearness:g}"


def _errors(errors: Errors) -> tuple[str, str]:
    return points(float(np.nanmean(errors.whole))), points(float(np.nanmean(errors.changed)))

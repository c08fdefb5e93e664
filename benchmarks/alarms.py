"""Alarms that deserve a page: false ones in quiet months, and what becomes of changes that hurt or do not.

    python benchmarks/alarms.py --write                  everything: about half an hour on one core
    python benchmarks/alarms.py --quick                  two models, three days: two or three minutes
    python benchmarks/alarms.py --write --only quiet     some sections; the others stay as they were

Needs river (the `bench` dependencies). The first run encodes 75,000 texts; then they come from the cache.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import alarms_tables as tables
from alarms_changes import SHARES, changes
from alarms_estimates import estimates_table, judged
from alarms_models import watched_models
from alarms_pages import CLOSING, INTRODUCTION, PROTOCOL, TEXTS, TITLES
from alarms_quiet import quiet, settings_of, splits
from alarms_streams import MONTH, VOLUMES
from alarms_texts import text_encoder
from workbench import publish_sections, say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alarms_changes import Found
    from alarms_models import Watched
    from alarms_quiet import Quiet
    from alarms_rivals import Tuned

    from agent.encoder import Encoder

SPLITS = 5
QUICK_MODELS, QUICK_PANES, QUICK_SHARES = 2, 432, (0.25, 1.0)


def main() -> None:
    """Run the sections asked for and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TITLES, default=list(TITLES), help="sections to measure")
    parser.add_argument("--quick", action="store_true", help="two models and three days; writes nothing")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/alarms.md")
    options = parser.parse_args()
    found = measured(text_encoder(), set(options.only), quick=options.quick)
    sections = {"How it is measured": PROTOCOL.strip()}
    sections |= {TITLES[name]: f"{TEXTS[name].strip()}\n\n{found[name]}" for name in TITLES if name in found}
    sections |= {"Reading the tables": CLOSING.strip()}
    publish_sections("alarms", INTRODUCTION, sections, write=options.write and not options.quick)


def measured(encoder: Encoder, only: Collection[str], *, quick: bool) -> dict[str, str]:
    """The tables by section."""
    most, panes = (QUICK_MODELS, QUICK_PANES) if quick else (None, MONTH)
    found = {}
    models: list[Watched] = []
    if {"quiet", "changes", "estimates"} & set(only):
        models = list(watched_models(encoder, 0, most))
    if "estimates" in only:
        found["estimates"] = estimates_table([row for watched in models for row in judged(watched)])
    if {"quiet", "changes"} & set(only):
        settings = settings_of(models, panes)
        if "quiet" in only:
            months = []
            for number, watched in enumerate(models):
                say(f"a quiet month of {watched.name}")
                months.append(quiet(watched, settings, panes, number))
            found["quiet"] = quiet_section(months, settings)
        if "changes" in only:
            rows: list[Found] = []
            for watched in models:
                say(f"changes of {watched.name}")
                rows += changes(watched, settings, QUICK_SHARES if quick else SHARES)
            found["changes"] = changes_section(rows)
    if "splits" in only:
        again = list(splits(encoder, 1 if quick else SPLITS, most, panes))
        found["splits"] = f"{tables.splits_table(again, len(VOLUMES))}\n{tables.beyond_list(again)}"
    return found


def quiet_section(months: Sequence[Quiet], settings: Tuned) -> str:
    """Alarms where nothing changes, and what the others were tuned to."""
    step = 1e6 * sum(each.step for each in months) / len(months)
    own = settings.own_threshold.values()
    return (
        f"{tables.quiet_table(months, len(VOLUMES))}\n{tables.beyond_list(months)}\n"
        f"Tuned on another month of the same traffic: ADWIN with delta {settings.delta:g}; the OOD ratio of an"
        f" hour above {settings.threshold:g} for all models, or {min(own):g} to {max(own):g} for each its own."
        f" KSWIN with alpha {settings.alpha:.1g}, windows of 400 and 100, by arithmetic.\n\n"
        f"One decision step of a slice takes {step:.0f} µs.\n"
    )


def changes_section(rows: Sequence[Found]) -> str:
    """What was seen and paged, three ways, and everyone beside each other."""
    return "\n".join(
        [
            tables.by_drop(rows),
            tables.by_harm(rows),
            tables.by_kind(rows),
            tables.contenders(rows),
            tables.endings(rows),
        ]
    )


if __name__ == "__main__":
    main()

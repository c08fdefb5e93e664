"""How well the accuracy drop is estimated without labels: 380 shifts between 20 domains, other methods beside.

    python benchmarks/drop.py --write                     everything: about an hour on two cores
    python benchmarks/drop.py --write --only backtest     some sections; the others stay as they were

The first run encodes 42,000 texts, and `adversarial` 28,000 more; after that the embeddings come from the cache.
`shifts`, `windows` and `domains` fit one panel for each target, together, and take most of the time.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import drop_tables as tables
from drop_ablation import fewer_domains
from drop_adversarial import PLAIN, TAGGED, adversarial
from drop_constants import grid
from drop_methods import ENSEMBLE, MEAN, OURS, direct
from drop_pages import CLOSING, INTRODUCTION, PROTOCOL, TEXTS
from drop_study import sentiment, study_of
from drop_windows import backtest, classes_changed, left_out, mixtures, sizes, whole
from workbench import publish_sections

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from drop_methods import Row
    from drop_study import Study

WINDOWED = (MEAN, "CONF_CALIB", "COT", ENSEMBLE, direct("CBPE"), direct("ATC"), OURS)
FEWER = (MEAN, "PAD", "CONF_CALIB", "RCA*", "COT", ENSEMBLE, OURS)
COVERED = (MEAN, "COT", ENSEMBLE, OURS)
TITLES: Mapping[str, str] = {
    "shifts": "All shifts",
    "backtest": "What a fit says of itself",
    "classes": "Windows with other class ratios",
    "mixed": "Mixed windows",
    "sizes": "Smaller windows",
    "domains": "Fewer reference domains",
    "adversarial": "A shift that means nothing",
    "constants": "The constants",
}


def main() -> None:
    """Run the sections asked for and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TITLES, default=list(TITLES), help="sections to measure")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/drop.md")
    options = parser.parse_args()
    study = study_of(*sentiment())
    found = measured(study, set(options.only))
    sections = {
        TITLES[name]: f"{TEXTS[name].strip()}\n\n{found[name]}".lstrip() for name in TITLES if name in found
    }
    first = {title: sections.pop(title) for title in [TITLES["shifts"]] if title in sections}
    sections = {**first, "How it is measured": PROTOCOL.strip(), **sections, "Reading the tables": CLOSING.strip()}
    publish_sections("drop", INTRODUCTION, sections, write=options.write)


def measured(study: Study, only: Collection[str]) -> dict[str, str]:
    """The tables by section."""
    found = {}
    wanted = {"whole": whole, "classes": classes_changed, "sizes": sizes}
    asked = {*only, *({"whole"} if {"shifts", "domains"} & set(only) else ())}
    experiments = {name: experiment for name, experiment in wanted.items() if name in asked}
    rows = left_out(study, experiments) if experiments else {}
    if "shifts" in only:
        found["shifts"] = tables.all_shifts(rows["whole"])
    if "backtest" in only:
        found["backtest"] = tables.backtest(*backtest(study))
    if "classes" in only:
        found["classes"] = tables.by_case(rows["classes"], "positive : negative", WINDOWED)
    if "sizes" in only:
        found["sizes"] = tables.sizes(rows["sizes"])
    if "mixed" in only:
        found["mixed"] = tables.by_case(mixtures(study), "share of the target, the rest from", WINDOWED)
    if "domains" in only:
        found["domains"] = fewer(study, rows["whole"])
    if "adversarial" in only:
        found["adversarial"] = tables.adversarial(adversarial(study.names, study.domains), PLAIN, TAGGED)
    if "constants" in only:
        found["constants"] = tables.constants(grid(study))
    return found


def fewer(study: Study, most: Sequence[Row]) -> str:
    """Errors by the number of reference domains, and how often the intervals hold."""
    rows = [*fewer_domains(study), *(row._replace(case=str(len(study) - 2)) for row in most)]
    return f"{tables.sources(rows, 'domains', FEWER)}\n{tables.by_case(rows, 'domains', (), COVERED)}"


if __name__ == "__main__":
    main()

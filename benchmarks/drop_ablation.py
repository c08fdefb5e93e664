"""The drop estimated from fewer reference domains (paper, 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from drop_methods import OURS, Lines, Panel, Row
from drop_study import SEED
from workbench import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from drop_study import Study

COUNTS = (2, 3, 5, 8, 12)
REPEATS = 5


def fewer_domains(study: Study) -> list[Row]:
    """In every repeat the domains are cut into random sets.

    Within a set of j + 1, each domain is the source once and the other j are its references; every domain outside
    of the set is a target.
    """
    draw = np.random.default_rng(SEED)
    rows: list[Row] = []
    for count in COUNTS:
        for repeat in range(REPEATS):
            say(f"{count} reference domains, {repeat + 1} of {REPEATS}")
            order = draw.permutation(len(study))
            for first in range(0, len(study) - count, count + 1):
                rows += of_set(study, str(count), order[first : first + count + 1].tolist())
    return rows


def of_set(study: Study, case: str, members: Sequence[int]) -> Iterator[Row]:
    """Every source of one set on every target outside of it."""
    panel = Panel.over(study, members)
    lines = {
        source: Lines.over(study, source, [place for place in members if place != source]) for source in members
    }
    for target in study.others(*members):
        ours = panel.answers(study.models, study.domains[target].sample)
        for source in members:
            realised = float(study.drops[source, target])
            for method, answer in lines[source].answers(study.metrics[source][target]).items():
                yield Row(case, method, source, realised, answer)
            yield Row(case, OURS, source, realised, ours[source])

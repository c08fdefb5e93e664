"""Which metrics and labels a PromQL expression names, held against the table of what is exported.

Whether it is PromQL at all is for promtool to say: here it is only taken to pieces.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from exporters.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`'  # strings
    r"|\[[^\]]*\]"  # durations
    r"|[A-Za-z_:][\w:]*|\d[\w.]*"  # names and numbers
    r"|=~|!~|!=|==|[<>]=|[^\s]",
    re.DOTALL,
)
# What Prometheus itself adds to every series that it scrapes.
TARGET_LABELS = frozenset({"job", "instance"})
GROUPINGS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})


def exported() -> dict[str, frozenset[str]]:
    """Every series name there can be, with the labels that its series have."""
    found: dict[str, frozenset[str]] = {}
    for metric in METRICS:
        labels = TARGET_LABELS | set(metric.labels)
        if metric.kind == "histogram":
            found |= {f"{metric.name}_bucket": labels | {"le"}}
            found |= {f"{metric.name}_{part}": labels for part in ("sum", "count")}
        else:
            found[metric.name] = labels
    return found


def complaints(expression: str) -> list[str]:
    """What an expression names that no agent exports: metrics, and labels that these metrics do not have.

    A label by which is grouped or matched must be one of some metric of the expression.
    """
    tokens = TOKEN.findall(expression)
    known = exported()
    selectors = list(_selectors(tokens))
    named = [name for names, _ in selectors for name in names]
    missing = [f"no metric {name}" for name in named if name not in known]
    wrong = [
        f"{name} has no label {label}"
        for names, labels in selectors
        for name in names
        for label in labels
        if label not in known.get(name, {label})
    ]
    grouped = {label for label in _grouped(tokens) if not any(label in known.get(name, ()) for name in named)}
    return [*missing, *wrong, *(f"no metric with a label {label}" for label in sorted(grouped))]


def _selectors(tokens: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Each selector's metrics and the labels it matches; one without a name names them by `__name__`."""
    place = 0
    while place < len(tokens):
        name, place = tokens[place], place + 1
        inside: list[str] = []
        if name == "{" or (name.startswith("leadline_") and tokens[place : place + 1] == ["{"]):
            end = tokens.index("}", place)
            inside, place = tokens[place:end], end + 1
        if name.startswith("leadline_"):
            yield [name], _matched(inside)
        elif inside:
            names = inside[inside.index("__name__") + 2]
            yield names[1:-1].split("|"), [label for label in _matched(inside) if label != "__name__"]


def _matched(inside: list[str]) -> list[str]:
    signs = {"=", "!=", "=~", "!~"}
    return [label for label, sign in pairwise(inside) if sign in signs]


def _grouped(tokens: list[str]) -> Iterator[str]:
    """The labels in the brackets after `by`, `on` and the like."""
    for place, token in enumerate(tokens[:-1]):
        if token in GROUPINGS and tokens[place + 1] == "(":
            end = tokens.index(")", place)
            yield from (each for each in tokens[place + 2 : end] if each != ",")

"""The committed dashboards and their queries, as the tests read them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from deploy.grafana.__main__ import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json = dict[str, Any]
NAMES = ("leadline-overview", "leadline-model")
PLAUSIBLE = {"model": "sentiment", "slice": 'tenant "a"', "window": "long", "detector": "knn"}


@dataclass(frozen=True)
class Asked:
    """One expression of a dashboard, and where it stands."""

    dashboard: str
    place: str
    expression: str

    def filled(self, values: Mapping[str, str]) -> str:
        """The expression with these values for Grafana's variables."""
        return filled(self.expression, values)


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with these values put in raw for Grafana's variables."""
    text = re.sub(r"\$\{(\w+):raw\}", lambda found: values[found[1]], text)
    return text.replace("$__rate_interval", "1m")


def dashboard(name: str) -> Json:
    """A dashboard as it is committed."""
    found: Json = json.loads((DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    return found


def panels(name: str) -> list[Json]:
    """The panels of a dashboard, without the headings of its rows."""
    return [panel for panel in dashboard(name)["panels"] if panel["type"] != "row"]


def asked() -> list[Asked]:
    """Every expression of every panel, variable and annotation."""
    return list(chain.from_iterable(_asked(name) for name in NAMES))


def _asked(name: str) -> Iterator[Asked]:
    for panel in panels(name):
        for query in panel["targets"]:
            yield Asked(name, f"{panel['id']} {panel['title']}, {query['refId']}", query["expr"])
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] == "query":
            yield Asked(name, f"variable {variable['name']}", values_of(variable)[0])
    for annotation in dashboard(name)["annotations"]["list"]:
        if "expr" in annotation:
            yield Asked(name, f"annotation {annotation['name']}", annotation["expr"])


def values_of(variable: Json) -> tuple[str, str]:
    """The selector and the label of a variable's `label_values(selector, label)`."""
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert found, variable["query"]
    return found[1], found[2]

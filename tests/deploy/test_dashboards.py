"""The dashboards: they can be imported anywhere, and every query asks for what an agent exports."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.grafana.__main__ import DIRECTORY, files
from exporters.episodes.annotator import ALL
from tests.deploy.dashboards import (
    NAMES,
    PLAUSIBLE,
    asked,
    dashboard,
    panels,
)
from tests.deploy.promql import complaints
from tests.services import program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# What Grafana lets the Prometheus plugin keep beside its own fields of an annotation.
OF_THE_PLUGIN = {"useValueForTime", "titleFormat", "textFormat", "tagKeys"}
STORE = {"type": "grafana", "uid": "-- Grafana --"}


def everything(found: object) -> Iterator[tuple[str, Any]]:
    """Each key and value, however deep."""
    if isinstance(found, dict):
        yield from found.items()
    for inner in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from everything(inner)


def test_the_committed_dashboards_are_what_the_tables_say() -> None:
    """`python -m deploy.grafana` would change nothing, and nothing else lies beside them."""
    assert {file: file.read_text(encoding="utf-8") for file in DIRECTORY.iterdir()} == files()


def test_uids_and_names_stay_as_they_are() -> None:
    """Links, annotators and provisioning rely on these uids; Grafana gives the id."""
    found = {name: dashboard(name) for name in NAMES}
    assert {name: (each["uid"], each["id"]) for name, each in found.items()} == {
        name: (name, None) for name in NAMES
    }
    assert len({each["title"] for each in found.values()}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_datasource_is_hard_coded(name: str) -> None:
    """Everything asks the datasource that is chosen above; only annotations may ask Grafana's own store."""
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    found = dashboard(name)
    assert found["templating"]["list"][0]["name"] == "datasource"
    allowed = {key: [chosen, STORE] if key == "annotations" else [chosen] for key in found}
    for key, inside in found.items():
        named = [value for inner, value in everything(inside) if inner == "datasource"]
        assert [value for value in named if value not in allowed[key]] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_can_be_read_without_its_author(name: str) -> None:
    """Each has a title, a few plain sentences, and a unit that Grafana knows."""
    known = {value for key, value in vars(units).items() if isinstance(value, str) and not key.startswith("_")}
    for panel in panels(name):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert len(panel["description"]) > 50, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in known, panel["title"]
        overridden = [value for key, value in everything(panel["fieldConfig"]["overrides"]) if key == "properties"]
        for each in chain.from_iterable(overridden):
            assert each["id"] != "unit" or each["value"] in known, panel["title"]


@pytest.mark.parametrize("name", NAMES)
def test_panels_lie_side_by_side(name: str) -> None:
    """Within 24 columns, none over another, none with the id of another."""
    found = dashboard(name)["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    for panel in found:
        at = panel["gridPos"]
        assert (at["x"] >= 0, at["x"] + at["w"] <= 24, at["h"] > 0) == (True, True, True), panel["title"]
    for one, other in combinations(found, 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or above, (one["title"], other["title"])


@pytest.mark.parametrize("name", NAMES)
def test_overrides_and_orders_name_what_is_there(name: str) -> None:
    """Each is of a series or column that its panel has."""
    for panel in panels(name):
        titles = {query["legendFormat"] for query in panel["targets"]}
        for change in panel["transformations"]:
            names = change["options"].get("indexByName", {})
            titles |= {change["options"]["renameByName"].get(each, each) for each in names}
        matched = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
        matched |= {each["displayName"] for each in panel["options"].get("sortBy", [])}
        assert matched <= titles, panel["title"]


def test_the_dashboards_link_to_each_other() -> None:
    """By uid, and nowhere else."""
    for name, other in zip(NAMES, reversed(NAMES), strict=True):
        found = [value for key, value in everything(dashboard(name)) if key == "url"]
        uids = {re.match(r"/d/([\w-]+)(\?|$)", url) for url in found}
        assert {match and match[1] for match in uids} <= {"leadline-model", other}
        assert f"/d/{other}" in found


@pytest.mark.parametrize("name", NAMES)
def test_episodes_are_shown_by_their_tag(name: str) -> None:
    """What the annotator writes into Grafana is found by the tag that it gives to everything."""
    found = [each.get("target", {}) for each in dashboard(name)["annotations"]["list"]]
    tags = [target["tags"] for target in found if target.get("type") == "tags"]
    assert [ALL] in tags
    assert all(ALL in each for each in tags)


@pytest.mark.parametrize("name", NAMES)
def test_grafana_has_a_place_for_everything(name: str) -> None:
    """Its own models of a dashboard give back each field that they took in: none is misspelt or misplaced."""
    register_default_plugins()
    ours = dashboard(name)
    theirs = json.loads(JSONEncoder().encode(Dashboard.from_json(ours)))
    assert [path for path in lost(ours, theirs) if path.rpartition(".")[2] not in OF_THE_PLUGIN] == []


def lost(ours: object, theirs: object, path: str = "") -> Iterator[str]:
    """Where ours has something that theirs has not, or has otherwise."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if value is not None:
                yield from lost(value, theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}[{place}]")
    elif ours != theirs:
        yield path


def test_every_query_asks_for_what_is_exported() -> None:
    """Each metric, and each label it is matched or grouped by, is one of the table of metrics."""
    found = {(each.dashboard, each.place): complaints(each.expression) for each in asked()}
    assert {place: said for place, said in found.items() if said} == {}


def test_a_wrong_query_would_be_noticed() -> None:
    """A metric that there is not, a label it does not have, one by which nothing can be grouped."""
    assert complaints("sum by (modle) (leadline_gone_total{x='1'}) + leadline_annotate{window=~`a|b`}") == [
        "no metric leadline_gone_total",
        "leadline_annotate has no label window",
        "no metric with a label modle",
    ]
    assert complaints('{__name__=~"leadline_annotate|leadline_gone",slice="a"}') == ["no metric leadline_gone"]
    assert complaints("rate(leadline_score_seconds_bucket{le='1'}[5m])") == []
    assert complaints("leadline_score_seconds") == ["no metric leadline_score_seconds"]


def test_every_query_is_promql(tmp_path: Path) -> None:
    """Prometheus' own tool parses each of them, with plausible values for Grafana's variables."""
    promtool = program("promtool", "prometheus")
    rules = [
        {"record": f"leadline:query{number}", "expr": each.filled(PLAUSIBLE)}
        for number, each in enumerate(asked())
    ]
    assert [rule["expr"] for rule in rules if "$" in rule["expr"]] == []
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout

"""The rules that are shipped for Prometheus: promtool's checks and tests, and what every alert must have."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.promql import TOKEN, exported
from tests.services import program

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "leadline.rules.yml"
TESTS = sorted((ROOT / "deploy" / "prometheus" / "tests").glob("*.yml"))
RUNBOOK = (ROOT / "docs" / "RUNBOOK.md").read_text(encoding="utf-8")
SCENARIOS = {"fires", "healthy", "sparse", "nan", "vanishes", "restarts", "twins"}


def load(path: Path) -> Any:  # noqa: ANN401 - any YAML
    """The content of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


CONTENT = load(RULES)
EVERY_RULE = [rule for group in CONTENT["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in EVERY_RULE if "alert" in rule}
RECORDED = {rule["record"] for rule in EVERY_RULE if "record" in rule}

every_alert = pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)


@dataclass(frozen=True)
class Held:
    """What promtool's tests hold of one alert."""

    scenarios: frozenset[str]
    worded: bool


def held(alert: str) -> Held:
    """Over every test whose name begins with the alert's."""
    groups = [test for file in TESTS for test in load(file)["tests"] if re.match(rf"{alert}\b", test["name"])]
    text = "\n".join(
        [test["name"] for test in groups]
        + [series["series"] for test in groups for series in test["input_series"]]
    )
    return Held(
        frozenset(name for name in SCENARIOS if re.search(rf"\b{name}\b", text)),
        any(
            said["exp_annotations"]
            for test in groups
            for check in test.get("alert_rule_test", ())
            for said in check["exp_alerts"]
        ),
    )


@pytest.fixture(scope="module")
def promtool() -> str:
    """The tool's path; without it the tests are skipped, or fail where services are required."""
    return program("promtool", "prometheus")


def test_the_rules_are_rules(promtool: str) -> None:
    """`promtool check rules` reads every rule of the file."""
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{len(EVERY_RULE)} rules found" in done.stdout


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_the_rules_do_what_their_tests_say(promtool: str, file: Path) -> None:
    """`promtool test rules` finds each alert firing, and not firing, where it should."""
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_no_series_is_hexadecimal_by_mistake(file: Path) -> None:
    """promtool reads `0x9` as one sample of nine, not as ten zeros; those are `0+0x9`."""
    values = [str(series["values"]) for test in load(file)["tests"] for series in test["input_series"]]
    assert [each for each in values if re.search(r"(?:^| )0x", each)] == []


@every_alert
def test_every_alert_is_tried_in_every_scenario(alert: dict[str, Any]) -> None:
    """Fires, does not, sparse data, no numbers, vanishing series, a restart, two replicas; and its words."""
    found = held(alert["alert"])
    assert found.scenarios == SCENARIOS
    assert found.worded


@every_alert
def test_every_alert_says_what_a_tired_person_needs(alert: dict[str, Any]) -> None:
    """A severity that can be routed by, a summary, a description, and two addresses to go to."""
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in {"page", "ticket", "info"}
    notes = alert["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url", "dashboard_url"}
    assert notes["runbook_url"] == f"https://docs.example/leadline/RUNBOOK.md#{alert['alert'].lower()}"
    assert notes["dashboard_url"].startswith("https://grafana.example/d/leadline-")


@every_alert
def test_every_alert_has_its_heading_in_the_runbook(alert: dict[str, Any]) -> None:
    """The heading's anchor is where the alert points to, and below it are the four things to know."""
    (section,) = re.findall(rf"^## {alert['alert']}\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert section.strip().startswith("**")
    assert [part for part in ("*How bad.*", "*Do first.*", "*Over*") if part not in section] == []


def test_the_runbook_knows_no_other_alert() -> None:
    """What is no longer an alert is no longer in the runbook."""
    assert set(re.findall(r"^## (\w+)", RUNBOOK, re.MULTILINE)) == ALERTS.keys()


@every_alert
def test_no_alert_is_told_apart_by_instance(alert: dict[str, Any]) -> None:
    """Two replicas of one model are one alert: nothing outside the innermost brackets keeps `instance`."""
    outermost = re.match(
        r"(?:time\(\) - )?(?:max|min|sum|group|absent|model_slice:|model:)(?:\(| by \((.*?)\)|\w)",
        alert["expr"].strip(),
    )
    assert outermost, alert["expr"]
    assert "instance" not in (outermost[1] or "")


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_rule_names_only_what_is_exported(rule: dict[str, Any]) -> None:
    """No expression, and no query in the text of an alert, names a metric that no agent exports."""
    texts = [rule["expr"], *rule.get("annotations", {}).values()]
    known = exported().keys() | RECORDED
    names = {token for text in texts for token in _names(text)}
    assert names
    assert names - known == set()


def _names(text: str) -> set[str]:
    """The metrics in an expression, or in the queries of a template; patterns of names are spelt out by hand."""
    queries = [text] if "{{" not in text else re.findall(r"`([^`]*leadline_[^`]*)`", text)
    tokens = [token for query in queries for token in TOKEN.findall(query)]
    return {token for token in tokens if re.match(r"(?:\w+:)?leadline_\w", token)}


def test_only_one_alert_wakes_anybody() -> None:
    """Leadline itself is never a reason to get up."""
    assert [name for name, alert in ALERTS.items() if alert["labels"]["severity"] == "page"] == [
        "LeadlineAnnotate"
    ]


def test_the_addresses_to_fill_in_are_the_documented_ones() -> None:
    """The two replacements that the file's head shows leave no example address."""
    text = RULES.read_text(encoding="utf-8")
    (shown,) = re.findall(r"sed -i '(.*?)'", text)
    for command in shown.split("; "):
        _, old, new, _ = command.split(",")
        text = text.replace(old, new)
    assert ".example" not in "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def test_the_file_is_plain_enough_for_a_chart() -> None:
    """Only `groups`, so that the same YAML is the spec of a PrometheusRule."""
    assert CONTENT.keys() == {"groups"}
    assert [group.keys() for group in CONTENT["groups"]] == [{"name", "rules"}] * len(CONTENT["groups"])

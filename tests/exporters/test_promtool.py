"""Prometheus' own tool reads what is exported and what is documented."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from prometheus_client import generate_latest

from exporters.metrics import document
from exporters.prometheus import registry_of
from tests.services import program

if TYPE_CHECKING:
    from pathlib import Path

    from agent.report import Report


@pytest.fixture(scope="module")
def promtool() -> str:
    """The tool's path; without it the tests are skipped, or fail where services are required."""
    return program("promtool", "prometheus")


def test_promtool_finds_nothing_to_say_about_the_metrics(promtool: str, report: Report) -> None:
    """`promtool check metrics` parses the awkward scrape and its linter is silent."""
    body = generate_latest(registry_of(lambda: report))
    done = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_documented_queries_are_promql(promtool: str, tmp_path: Path) -> None:
    """Every PromQL example of the documentation parses as the expression of a rule."""
    queries = re.findall(r"```promql\n(.*?)```", document(), re.DOTALL)
    rules = [{"record": f"leadline:example{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "examples", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{len(queries)} rules found" in done.stdout

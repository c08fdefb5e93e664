"""The table of metrics, held against Prometheus' conventions, and its generated documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exporters.metrics import METRICS, Metric, document

if TYPE_CHECKING:
    from agent.report import Report

DOCUMENT = Path(__file__).parents[2] / "docs" / "METRICS.md"
# Taken by targets and alerts, or unbounded.
FORBIDDEN_LABELS = {"type", "env", "service", "owner", "le", "instance", "job", "text", "id", "user"}
DERIVED_SUFFIXES = ("_count", "_sum", "_bucket", "_created")
NOT_BASE_UNITS = ("_ms", "_milliseconds", "_minutes", "_percent", "_age_seconds")

every_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


@every_metric
def test_a_name_follows_the_conventions(metric: Metric) -> None:
    """Names are prefixed snake case in base units, and none looks like a part of another metric."""
    assert re.fullmatch(r"leadline(_[a-z]+)+", metric.name)
    assert not metric.name.endswith(DERIVED_SUFFIXES + NOT_BASE_UNITS)


@every_metric
def test_a_suffix_tells_the_kind(metric: Metric) -> None:
    """Counters and only counters end in _total, infos and only infos in _info."""
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.name.endswith("_info") == (metric.kind == "info")


@every_metric
def test_labels_are_bounded_and_free_of_clashes(metric: Metric) -> None:
    """No label is repeated, reserved, or one that targets and alerts bring with them."""
    assert len(set(metric.labels)) == len(metric.labels)
    assert not FORBIDDEN_LABELS.intersection(metric.labels)


@every_metric
def test_a_series_has_a_value_for_each_label(metric: Metric, report: Report) -> None:
    """Every key that a metric reads is as long as its labels."""
    assert {len(labels) for labels in metric.read(report)} == {len(metric.labels)}


@every_metric
def test_a_help_is_one_line_that_fits_a_table(metric: Metric) -> None:
    """A help is one line of sentences without the character that ends a table's cell."""
    assert re.fullmatch(r"[^|\n]+\.", metric.help)


def test_names_are_unique() -> None:
    """No two rows of the table have the same name."""
    names = [metric.name for metric in METRICS]
    assert sorted(set(names)) == sorted(names)


def test_the_documentation_is_the_generated_one() -> None:
    """docs/METRICS.md says exactly what the table says."""
    assert DOCUMENT.read_text(encoding="utf-8") == document(), (
        "docs/METRICS.md is out of date; regenerate it: python -m exporters.metrics > docs/METRICS.md"
    )

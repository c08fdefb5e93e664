"""The dashboards' queries, asked of a real Prometheus that scrapes two agents of one model."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count, product
from typing import TYPE_CHECKING

import pytest

from agent.report import Histogram
from exporters.server import serving
from tests.deploy.dashboards import (
    NAMES,
    PLAUSIBLE,
    asked,
    dashboard,
    filled,
    panels,
    values_of,
)
from tests.exporters.conftest import awkward
from tests.prometheus_stack import Prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.report import Report


def full(first: Report) -> Report:
    """The crafted report with what it lacks: a checkpoint, and an estimate for a slice that asks for labels."""
    example = first.estimation.estimates[0]
    asking = next(each.slice for each in first.alerts.slices if each.annotate and each.since == each.since)
    estimates = (*first.estimation.estimates, replace(example, slice=asking))
    return replace(
        first,
        estimation=replace(first.estimation, estimates=estimates),
        upkeep=replace(first.upkeep, last_checkpoint=first.time),
    )


def growing(first: Report) -> Callable[[], Report]:
    """A report that tells of more records at each scrape, as rates need."""
    scrapes = count(1)

    def latest() -> Report:
        times = next(scrapes)
        return replace(
            first,
            counts=replace(first.counts, processed=first.counts.processed + 60 * times),
            item_p_values={key: multiplied(each, times) for key, each in first.item_p_values.items()},
            encode_seconds=multiplied(first.encode_seconds, times),
            score_seconds=multiplied(first.encode_seconds, times),
            batch_records=multiplied(first.batch_records, times),
            estimation=replace(first.estimation, seconds=multiplied(first.estimation.seconds, times)),
        )

    return latest


def multiplied(histogram: Histogram, times: int) -> Histogram:
    """So many times the observations."""
    return Histogram(histogram.edges, tuple(each * times for each in histogram.counts), histogram.total * times)


def calm(first: Report) -> Report:
    """A second agent of the same model, whose part of the traffic shows nothing."""
    slices = tuple(
        replace(each, evidence=0.0, shift_seen=False, annotate=False, needed=0) for each in first.alerts.slices
    )
    return replace(first, alerts=replace(first.alerts, slices=slices, episodes=()))


def choices(prometheus: Prometheus) -> list[dict[str, str]]:
    """Every choice of values that the variables of leadline-model offer."""
    offered: dict[str, list[str]] = {}
    for variable in dashboard("leadline-model")["templating"]["list"]:
        if variable["type"] == "custom":
            offered[variable["name"]] = variable["query"].split(",")
        elif variable["type"] == "query":
            selector, label = values_of(variable)
            first = {name: values[0] for name, values in offered.items()}
            path = f"/api/v1/label/{label}/values"
            offered[variable["name"]] = prometheus.get(path, **{"match[]": filled(selector, first)})["data"]
    return [dict(zip(offered, values, strict=True)) for values in product(*offered.values())]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A real one that has scraped two agents of one model twice, one of them calm."""
    report = full(awkward())
    with (
        serving(growing(report), "127.0.0.1", 0) as one,
        serving(growing(calm(report)), "127.0.0.1", 0) as other,
        Prometheus(
            tmp_path_factory.mktemp("prometheus"), [f"{each.host}:{each.port}" for each in (one, other)]
        ) as started,
    ):
        deadline = time.monotonic() + 30
        while started.query("count(count_over_time(leadline_ready[1m]) >= 2)") != {frozenset(): 2.0}:
            assert time.monotonic() < deadline, started.end_of_log()
            time.sleep(0.1)
        yield started


def test_every_query_finds_something(prometheus: Prometheus) -> None:
    """Each gives data for some slice of an agent that has something of everything, and an error for none."""
    chosen = choices(prometheus)
    found: dict[tuple[str, str], bool] = {}
    for each in asked():
        values = chosen if each.dashboard == "leadline-model" else chosen[:1]
        for expression in dict.fromkeys(each.filled(one) for one in values):
            series = prometheus.query(expression)
            numbers = any(value == value for value in series.values())  # noqa: PLR0124 - NaN is none
            found[each.dashboard, each.place] = found.get((each.dashboard, each.place), False) or numbers
    assert [place for place, numbers in found.items() if not numbers] == []


def test_several_agents_of_a_model_are_told_as_one(prometheus: Prometheus) -> None:
    """A calm agent hides no other, nothing is counted twice, and only the tables of agents tell them apart."""
    (slice_name,) = {"reviews"} & {one["slice"] for one in choices(prometheus)}
    values = PLAUSIBLE | {"slice": slice_name}
    found = {
        (panel["title"], query["refId"]): prometheus.query(filled(query["expr"], values))
        for name in NAMES
        for panel in panels(name)
        for query in panel["targets"]
    }
    apart = {title for (title, _), series in found.items() if any("instance" in dict(labels) for labels in series)}
    assert apart == {"Agents", "Age of the newest checkpoint"}
    assert found["Slices that ask for labels", "A"] == {frozenset(): 2}
    assert found["Labels needed", "A"] == {frozenset(): 683 + 1000}
    assert found["Asks for labels", "A"] == {frozenset(): 2}
    assert found["Agents not reading", "A"] == {frozenset(): 2}


def test_the_rows_of_a_table_come_together(prometheus: Prometheus) -> None:
    """Its queries share the labels by which Grafana merges them, and no two series of a query are one row."""
    tables = [panel for panel in panels("leadline-overview") if panel["type"] == "table"]
    for panel in tables:
        results = [prometheus.query(query["expr"]) for query in panel["targets"]]
        names = [frozenset(name for name, _ in labels) for series in results for labels in series]
        shared = frozenset.intersection(*names)
        assert shared in ({"model", "slice"}, {"instance"}), panel["title"]
        for series in results:
            rows = [frozenset(each for each in labels if each[0] in shared) for labels in series]
            assert len(set(rows)) == len(rows) > 0, panel["title"]

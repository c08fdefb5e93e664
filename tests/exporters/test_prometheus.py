"""The rendered metrics: the golden scrape, both formats parsed back, and what must never be in them."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.alert_report import Alerts, BatchFacts, Outcome, Realised, SliceDecision
from agent.interval import Interval
from agent.report import DropEstimate, Estimation, Histogram, SourceStatus
from exporters.metrics import METRICS
from exporters.prometheus import registry_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client import Metric as Family

    from agent.report import Report

REGENERATE = "LEADLINE_REGENERATE"
FORMATS = {
    "text": (generate_latest, parse_text),
    "openmetrics": (generate_openmetrics, parse_openmetrics),
}

NO_SAYING = DropEstimate(4, 0.9, "too few", Interval(), Interval(), {}, {}, inside_domains=True, outside=())

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(params=FORMATS)
def families(request: pytest.FixtureRequest, report: Report) -> list[Family]:
    """The awkward Report, rendered and parsed back, in either format."""
    encode, parse = FORMATS[request.param]
    return list(parse(encode(registry_of(lambda: report)).decode()))


def series(families: list[Family]) -> Series:
    """Every sample by name and labels; no two may share both."""
    samples = [each for family in families for each in family.samples]
    found = {(each.name, frozenset(each.labels.items())): each.value for each in samples}
    assert len(found) == len(samples)
    return found


def rendered(report: Report) -> Series:
    """The series of a Report in Prometheus text."""
    return series(list(parse_text(generate_latest(registry_of(lambda: report)).decode())))


def values(found: Series, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """The series of one name, by labels."""
    return {labels: value for (each, labels), value in found.items() if each == name}


def test_the_scrape_is_the_golden_one(report: Report, golden: Path) -> None:
    """The whole body is, byte for byte, the reviewed one."""
    body = generate_latest(registry_of(lambda: report))
    file = golden / "metrics.txt"
    if os.environ.get(REGENERATE):
        file.write_bytes(body)
    assert body == file.read_bytes(), (
        f"if the change is meant, run {REGENERATE}=1 pytest {__file__} and review the difference"
    )


def test_every_metric_comes_with_help_and_type(report: Report) -> None:
    """Each row of the table has its HELP and TYPE line, in the table's order."""
    lines = generate_latest(registry_of(lambda: report)).decode().splitlines()
    told = [line.split(" ", 3)[1:3] for line in lines if line.startswith("# ")]
    assert told == [[word, metric.name] for metric in METRICS for word in ("HELP", "TYPE")]


def test_both_formats_say_the_same(report: Report) -> None:
    """Text and OpenMetrics, parsed back, hold the same series and values."""
    text, openmetrics = (
        series(list(parse(encode(registry_of(lambda: report)).decode()))) for encode, parse in FORMATS.values()
    )
    assert text == openmetrics


def histogram_series(families: list[Family]) -> Iterator[tuple[list[tuple[str, float]], float, bool]]:
    """(buckets by le, count, whether there is a sum) of every histogram."""
    found = series(families)
    for (name, labels), count in found.items():
        stem = name.removesuffix("_count")
        if stem != name:
            buckets = [
                (dict(of)["le"], value)
                for of, value in values(found, f"{stem}_bucket").items()
                if {pair for pair in of if pair[0] != "le"} == labels
            ]
            yield buckets, count, (f"{stem}_sum", labels) in found


def test_histograms_are_cumulative_up_to_infinity(families: list[Family]) -> None:
    """Buckets rise in bound and never fall in count, end with +Inf at the count, and have a sum."""
    checked = 0
    for buckets, count, has_sum in histogram_series(families):
        assert all(float(low) < float(high) for (low, _), (high, _) in pairwise(buckets))
        assert all(few <= many for (_, few), (_, many) in pairwise(buckets))
        assert buckets[-1] == ("+Inf", count)
        assert has_sum
        checked += 1
    assert checked == 7


def test_a_value_above_the_last_edge_is_only_in_the_infinite_bucket(report: Report) -> None:
    """No finite bucket claims a 25 s batch, as a Report's last bucket takes what lies above its edge too."""
    found = rendered(replace(report, encode_seconds=Histogram.empty((0.1, 10.0)).observe(25.0)))
    assert values(found, "leadline_encode_seconds_bucket") == {
        frozenset({("le", "0.1")}): 0,
        frozenset({("le", "+Inf")}): 1,
    }


def test_p_values_keep_their_exact_upper_bound(report: Report) -> None:
    """No p-value exceeds 1, so le="1.0" holds them all and quantiles interpolate up to 1."""
    found = values(rendered(report), "leadline_item_p_value_bucket")
    of = {("model", "sentiment"), ("slice", "default"), ("detector", "knn")}
    assert found[frozenset(of | {("le", "1.0")})] == found[frozenset(of | {("le", "+Inf")})] == 10


def test_counts_balance_in_a_scrape(families: list[Family]) -> None:
    """received = processed + discarded + dead-lettered + in flight, from the numbers of one scrape."""
    received, *others = (
        sum(values(series(families), f"leadline_{name}").values())
        for name in (
            "events_received_total",
            "events_processed_total",
            "events_discarded_total",
            "dead_letters_total",
            "events_in_flight",
        )
    )
    assert all(others)
    assert received == sum(others)


@pytest.mark.parametrize(("stopped", "ones"), [("", []), ("schema_change", ["schema_change"]), ("new", ["new"])])
def test_every_reason_to_stop_is_told_before_it_comes(report: Report, stopped: str, ones: list[str]) -> None:
    """Reasons that do not hold are 0 rather than absent, so that an alert sees them change."""
    source = replace(report.source, stopped=stopped)
    told = values(rendered(replace(report, source=source)), "leadline_source_stopped")
    by_reason = {dict(labels)["reason"]: value for labels, value in told.items()}
    assert {"schema_change", "out_of_range"} <= by_reason.keys()
    assert [reason for reason, value in by_reason.items() if value] == ones


def test_lag_is_by_topic_and_partition(report: Report) -> None:
    """Each partition has its own lag, exact beyond 32 bits; a source without partitions has none."""
    lag = values(rendered(report), "leadline_kafka_consumer_lag_records")
    of = {(dict(labels)["topic"], dict(labels)["partition"]): value for labels, value in lag.items()}
    assert of == {("traffic", "0"): 0, ("traffic", "12"): 98765432109}
    assert not values(rendered(replace(report, source=SourceStatus())), "leadline_kafka_consumer_lag_records")


def test_ready_is_what_the_probe_says(report: Report) -> None:
    """leadline_ready is 1 only while /readyz would say so."""
    ready = replace(report, source=SourceStatus())
    found = [
        rendered(each)["leadline_ready", frozenset()] for each in (ready, report, replace(ready, ready=False))
    ]
    assert found == [1, 0, 0]


def test_nothing_is_ever_nan(families: list[Family]) -> None:
    """An unknown value is an absent series."""
    found = series(families)
    assert not any(map(math.isnan, found.values()))
    assert not values(found, "leadline_checkpoint_last_success_timestamp_seconds")


def test_a_histogram_whose_sum_is_nan_is_absent(report: Report) -> None:
    """A histogram that took a NaN is left out rather than exported with a sum of NaN."""
    broken = Histogram.empty((1.0, 2.0)).observe(float("nan"))
    found = rendered(replace(report, score_seconds=broken))
    assert not any(name.startswith("leadline_score_seconds") for name, _ in found)


def test_a_window_with_too_few_items_has_no_ratio_and_no_mean(report: Report) -> None:
    """Below the configured number of items its size, its end and that nothing can be estimated are exported."""
    found = {name: value for (name, labels), value in rendered(report).items() if ("slice", "quiet") in labels}
    assert found.keys() == {
        "leadline_window_items",
        "leadline_window_end_timestamp_seconds",
        "leadline_estimate_available",
        "leadline_shift_metric",
        "leadline_last_estimate_timestamp_seconds",
        "leadline_shift_evidence_threshold",
        "leadline_shift_seen",
        "leadline_annotate",
        "leadline_annotate_reason",
        "leadline_annotation_items_needed",
    }
    assert found["leadline_estimate_available"] == 0


def test_a_drop_is_three_series(report: Report) -> None:
    """The estimate and its bounds are told apart by `bound`, a gain is below 0, and whether it is in domain."""
    found = rendered(report)
    of = {("model", "sentiment"), ("slice", "default"), ("window", "short")}
    bounds = {"estimate": 0.041, "low": -1e-12, "high": 0.065}
    expected = {frozenset(of | {("bound", bound)}): value for bound, value in bounds.items()}
    assert expected.items() <= values(found, "leadline_accuracy_drop_ratio").items()
    assert values(found, "leadline_estimate_inside_domains")[frozenset(of)] == 0
    assert values(found, "leadline_estimate_available")[frozenset(of)] == 1


def test_where_nothing_can_be_said_no_drop_is_exported(report: Report) -> None:
    """A window with a reason instead of a number has no drop, not one of 0, whatever numbers lie about."""
    odd = replace(report.estimation.estimates[0], estimate=replace(NO_SAYING, drop=Interval(0.0, 0.0, 0.0)))
    found = rendered(replace(report, estimation=Estimation(estimates=(odd,))))
    assert not values(found, "leadline_accuracy_drop_ratio")
    assert not values(found, "leadline_estimate_inside_domains")
    assert list(values(found, "leadline_estimate_available").values()) == [0]


def test_without_an_estimate_running_there_is_no_start(report: Report) -> None:
    """The start of the running estimate is there only while one runs, so that its age tells of a hang."""
    name = "leadline_estimate_started_timestamp_seconds"
    assert list(values(rendered(report), name).values()) == [1767225999.5]
    assert not values(rendered(replace(report, estimation=Estimation())), name)


def of_slice(found: Series, name: str, slice_name: str) -> dict[str, float]:
    """The series of one name for one slice, by what its labels say beside model and slice."""
    own = {"model": "sentiment", "slice": slice_name}.items()
    return {
        ",".join(sorted(value for _, value in labels - own)): value
        for labels, value in values(found, name).items()
        if own <= labels
    }


def test_evidence_threshold_and_verdict_are_apart(report: Report) -> None:
    """What is known of a shift, what it must reach, whether it has, and whether it asks for labels are series."""
    found = rendered(report)
    names = ("shift_evidence", "shift_evidence_threshold", "shift_seen", "annotate", "annotation_items_needed")
    told = {
        each: [of_slice(found, f"leadline_{name}", each).get("") for name in names]
        for each in ("default", "reviews", "quiet")
    }
    assert told == {
        "default": [4.25, 4.5, 0, 0, 0],
        "reviews": [61.5, 4.5, 1, 1, 683],
        "quiet": [None, 4.5, 0, 0, 0],
    }


def test_an_open_episode_says_why_and_since_when(report: Report) -> None:
    """The reason of the open episode is 1 and the other 0; what a closed one was about is not told."""
    found = rendered(report)
    since = "leadline_episode_start_timestamp_seconds"
    assert of_slice(found, "leadline_annotate_reason", "reviews") == {"drop": 1, "unknown": 0}
    assert of_slice(found, since, "reviews") == {"": 1767222000.0}
    assert of_slice(found, "leadline_annotate_reason", "default") == {"drop": 0, "unknown": 0}
    assert of_slice(found, since, "default") == {}


def test_what_labels_say_is_of_the_newest_batch(report: Report) -> None:
    """The verdict on an earlier change of the slice does not pass for that of the one now open."""
    found = rendered(report)
    bounds = {"estimate": 0.09, "low": 0.05, "high": 0.13}
    assert of_slice(found, "leadline_realised_drop_ratio", "reviews") == bounds
    assert of_slice(found, "leadline_combined_drop_ratio", "reviews") == {
        "estimate": 0.1,
        "low": 0.07,
        "high": 0.125,
    }
    assert of_slice(found, "leadline_estimate_error_ratio", "reviews")[""] == pytest.approx(-0.03)
    assert of_slice(found, "leadline_annotation_labels", "reviews") == {"": 412}
    assert of_slice(found, "leadline_annotation_batch_timestamp_seconds", "reviews") == {"": 1767225001.0}


def test_a_new_batch_without_labels_has_no_verdict(report: Report) -> None:
    """Once a newer episode asks for labels, none has come back, and the drop realised before is gone."""
    newer = BatchFacts("f00d", "reviews", "annotation/f00d", 50, texts=False, written=1767225999.0)
    asking = next(each for each in report.alerts.open if each.slice == "reviews")
    alerts = replace(
        report.alerts,
        batches=(newer, *report.alerts.batches),
        episodes=(*report.alerts.episodes, replace(asking, id="f00d", fired=asking.fired + 1)),
    )
    found = rendered(replace(report, alerts=alerts))
    assert of_slice(found, "leadline_annotation_labels", "reviews") == {"": 0}
    assert of_slice(found, "leadline_realised_drop_ratio", "reviews") == {}


@pytest.mark.parametrize("ended", [False, True])
def test_a_batch_drawn_by_hand_does_not_hide_that_of_an_episode(report: Report, *, ended: bool) -> None:
    """However new it is, an episode's batch is told before it, over or not; alone it is told itself."""
    alerts = report.alerts
    asked = BatchFacts("asked-0123", "reviews", "annotation/asked-0123", 50, texts=False, written=1767225999.0)
    only = BatchFacts("asked-4567", "quiet", "annotation/asked-4567", 50, texts=False, written=1767225998.0)
    if ended:
        over = (replace(each, resolved=1767225990.0, outcome=Outcome.HARMLESS) for each in alerts.open)
        alerts = replace(alerts, episodes=tuple(over))
    found = rendered(replace(report, alerts=replace(alerts, batches=(asked, only, *alerts.batches))))
    assert of_slice(found, "leadline_annotation_labels", "reviews") == {"": 412}
    assert of_slice(found, "leadline_annotation_batch_timestamp_seconds", "reviews") == {"": 1767225001.0}
    assert "estimate" in of_slice(found, "leadline_realised_drop_ratio", "reviews")
    assert of_slice(found, "leadline_annotation_batch_timestamp_seconds", "quiet") == {"": 1767225998.0}


def test_labels_that_say_nothing_are_counted(report: Report) -> None:
    """Where nothing can be said from the labels, as for tokens, their number is known, and no drop."""
    found = rendered(report)
    assert of_slice(found, "leadline_annotation_labels", "default") == {"": 5}
    for name in ("realised_drop_ratio", "combined_drop_ratio", "estimate_error_ratio"):
        assert of_slice(found, f"leadline_{name}", "default") == {}


def test_labels_whose_batch_is_gone_still_count(report: Report) -> None:
    """What labels said is told even if nobody remembers the episode or finds its batch."""
    known = Realised("gone", "lost", 40, 40, Interval(0.2, 0.1, 0.3))
    found = rendered(replace(report, alerts=Alerts(realised=(known,))))
    assert of_slice(found, "leadline_realised_drop_ratio", "gone") == {"estimate": 0.2, "low": 0.1, "high": 0.3}
    assert of_slice(found, "leadline_annotation_labels", "gone") == {"": 40}


def test_an_agent_that_decides_nothing_has_no_limit(report: Report) -> None:
    """Without decisions there is no limit, no evidence and no verdict, rather than ones of 0."""
    told = {name for name, _ in rendered(replace(report, alerts=Alerts()))}
    assert not told & {
        "leadline_accuracy_drop_limit_ratio",
        "leadline_shift_evidence",
        "leadline_shift_seen",
        "leadline_annotate",
    }


def test_evidence_beyond_all_bounds_is_exported(report: Report) -> None:
    """Evidence may be infinite either way, as after records that the source never shows."""
    odd = Alerts(
        slices=(
            SliceDecision("a", math.inf, 4.5, shift_seen=True),
            SliceDecision("b", -math.inf, 4.5, shift_seen=False),
        )
    )
    found = rendered(replace(report, alerts=odd))
    assert of_slice(found, "leadline_shift_evidence", "a") == {"": math.inf}
    assert of_slice(found, "leadline_shift_evidence", "b") == {"": -math.inf}


def test_each_receiver_is_told_apart(report: Report) -> None:
    """Messages sent, failed and dropped are counted for each receiver, those without a failure included."""
    found = values(rendered(report), "leadline_notifications_total")
    told = {(dict(labels)["receiver"], dict(labels)["outcome"]): value for labels, value in found.items()}
    assert told == {
        ("grafana", "sent"): 3,
        ("grafana", "failed"): 0,
        ("grafana", "dropped"): 0,
        ("alertmanager", "sent"): 12,
        ("alertmanager", "failed"): 7,
        ("alertmanager", "dropped"): 1,
    }
    waiting = values(rendered(report), "leadline_notifications_waiting")
    assert {dict(labels)["receiver"]: value for labels, value in waiting.items()} == {
        "grafana": 0,
        "alertmanager": 2,
    }


def test_class_ratios_add_up_to_one(report: Report) -> None:
    """The ratios of the predicted classes are fractions of the window's items."""
    ratios = values(rendered(report), "leadline_predicted_class_ratio")
    chosen = [value for labels, value in ratios.items() if ("slice", "größe 🐟") in labels]
    assert sorted(chosen) == [0, 0.25, 0.75]


@pytest.mark.parametrize("name", ['quote " and \\ backslash', "new\nline, comma} and {brace=", "größe 🐟"])
def test_an_awkward_slice_name_survives_the_round_trip(families: list[Family], name: str) -> None:
    """Quotes, backslashes, newlines and letters of any script come back as they were."""
    found = values(series(families), "leadline_window_items")
    assert [value for labels, value in found.items() if ("slice", name) in labels] == [4]


def test_a_slice_name_without_a_utf8_form_is_spelt_out(families: list[Family]) -> None:
    """A lone surrogate becomes a visible escape instead of costing the whole scrape."""
    found = values(series(families), "leadline_window_items")
    assert any(("slice", r"lone \ud800 surrogate") in labels for labels in found)


def test_an_idle_slice_vanishes(report: Report) -> None:
    """Once a slice has left the snapshot, a collector that showed it shows nothing of it."""
    idle = replace(report, windows=(), item_p_values={}, estimation=Estimation(), alerts=Alerts())
    snapshots = iter([report, idle])
    registry = registry_of(lambda: next(snapshots))
    before, after = generate_latest(registry).decode(), generate_latest(registry).decode()
    assert 'slice="' in before
    assert 'slice="' not in after


def test_a_scrape_reads_one_snapshot(report: Report) -> None:
    """The snapshot is taken once a scrape, and not at all when the collector is registered."""
    taken: list[Report] = []

    def latest() -> Report:
        taken.append(report)
        return report

    registry = registry_of(latest)
    assert not taken
    generate_latest(registry)
    assert len(taken) == 1


def test_the_global_registry_is_left_alone(report: Report) -> None:
    """Nothing of ours is registered globally, so two agents fit into one process."""
    first, second = registry_of(lambda: report), registry_of(lambda: report)
    assert generate_latest(first) == generate_latest(second)
    assert b"leadline_" not in generate_latest(REGISTRY)

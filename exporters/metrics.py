"""The table of metrics: every series this agent exports, what it means and where in the Report it is read.

The exporter and docs/METRICS.md are made from this one table; nothing is exported that is not in it.
"""

from __future__ import annotations

import sys

from exporters.alert_metrics import DECISIONS, NOTIFICATIONS
from exporters.intake_metrics import INTAKE, UPKEEP
from exporters.metric import Distribution, Metric, Scalar
from exporters.probes import hindrance
from exporters.samples import (
    NO_LABELS,
    by_name,
    class_ratios,
    drops,
    item_p_values,
    last_estimates,
    ood_ratios,
    per_estimate,
    per_window,
    shift_metrics,
)

METRICS: tuple[Metric, ...] = (
    Scalar(
        "leadline_build_info",
        "info",
        ("version",),
        lambda report: {(report.version,): 1},
        "Which Leadline this is. Always 1.",
    ),
    Scalar(
        "leadline_model_info",
        "info",
        ("model", "reference_id", "encoder"),
        lambda report: {(report.info.model, report.info.reference_id, report.info.encoder): 1},
        "Which model is watched, held against which reference, through which encoder. Always 1.",
    ),
    Scalar(
        "leadline_encoder_info",
        "info",
        ("provider",),
        lambda report: {(report.info.provider,): 1},
        "Where the encoder really runs, whatever was asked for: a CPU provider on a GPU node explains lag. "
        "Always 1.",
    ),
    Scalar(
        "leadline_ready",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: not hindrance(report)},
        "1 while the agent reads records, 0 before the first and after the last, without a partition, and once "
        "reading has stopped. Same as /readyz, which says why.",
    ),
    Scalar(
        "leadline_heartbeat_timestamp_seconds",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.heartbeat},
        "When the loop last moved; it moves without records too. If it stands still the agent hangs, and "
        "/livez fails.",
    ),
    Scalar(
        "leadline_events_received_total",
        "counter",
        ("source",),
        lambda report: by_name(report.counts.received),
        "Records read since the start, good or bad. Flat: nothing arrives, look upstream.",
    ),
    Scalar(
        "leadline_events_processed_total",
        "counter",
        ("model",),
        lambda report: {(report.info.model,): report.counts.processed},
        "Records scored and counted in a window since the start.",
    ),
    Scalar(
        "leadline_events_discarded_total",
        "counter",
        ("reason",),
        lambda report: by_name(report.counts.discarded),
        "Records given up for good since the start, by reason; none of them will be tried again. "
        "A jump usually means that the sender changed its format.",
    ),
    Scalar(
        "leadline_dead_letters_total",
        "counter",
        ("reason",),
        lambda report: by_name(report.counts.dead_lettered),
        "Records that could not be used since the start and whose messages were kept whole as dead letters, by "
        "reason; they are not in leadline_events_discarded_total too. docs/RECORDS.md says how to look at them "
        "and send them again.",
    ),
    Scalar(
        "leadline_events_in_flight",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.counts.in_flight},
        "Records read and not yet processed, discarded or kept as dead letters, among them requests and responses "
        "that wait for each other. Never back at 0 where nothing is paired: scoring is slow or stuck.",
    ),
    Scalar(
        "leadline_unpaired_events_total",
        "counter",
        ("kind",),
        lambda report: by_name(report.counts.unpaired),
        "Requests whose response never came in time, and responses without a request. Each is also a record that "
        "was processed or given up. Some requests are normal: servers log no response to one that failed. Nearly "
        "all: the two halves carry different ids.",
    ),
    Scalar(
        "leadline_labels_received_total",
        "counter",
        NO_LABELS,
        lambda report: {NO_LABELS: report.counts.labels},
        "True classes that arrived on their own, after their records. They are not records, and count as none.",
    ),
    Scalar(
        "leadline_events_truncated_total",
        "counter",
        NO_LABELS,
        lambda report: {NO_LABELS: report.counts.truncated},
        "Processed records whose text was longer than the encoder reads: only its beginning was scored.",
    ),
    *INTAKE,
    Distribution(
        "leadline_item_p_value",
        ("model", "slice", "detector"),
        item_p_values,
        "How ordinary each item looked to a detector, as a p-value. Spread evenly over 0 to 1 if nothing "
        "changed; piled up near 0 under drift.",
    ),
    Scalar(
        "leadline_ood_ratio",
        "gauge",
        ("model", "slice", "detector", "window"),
        ood_ratios,
        "Fraction of the window's items out of distribution (p-value <= 0.05). About 0.05 if nothing changed. "
        "Absent while the window has too few items.",
    ),
    Scalar(
        "leadline_depth_mean",
        "gauge",
        ("model", "slice", "window"),
        per_window(lambda window: window.depth_mean),
        "Mean depth of the window's items, 0 to 2. Falls as texts move away from what the model was trained "
        "on. Absent while the window has too few items.",
    ),
    Scalar(
        "leadline_depth_q",
        "gauge",
        ("model", "slice", "window"),
        per_window(lambda window: window.q),
        "Mean rank of the window's depths among the source's, 0 to 1. About 0.5 if nothing changed, towards 0 "
        "as texts move away. Absent while the window has too few items.",
    ),
    Scalar(
        "leadline_confidence_mean",
        "gauge",
        ("model", "slice", "window"),
        per_window(lambda window: window.confidence_mean),
        "Mean calibrated probability of the predicted class, 0 to 1. High confidence is no proof of accuracy. "
        "Absent while the window has too few items.",
    ),
    Scalar(
        "leadline_predicted_class_ratio",
        "gauge",
        ("model", "slice", "window", "class"),
        class_ratios,
        "Fraction of the window's predictions that are this class. Everything in one class: suspect the model "
        "or its input. Absent while the window has too few items.",
    ),
    Scalar(
        "leadline_window_items",
        "gauge",
        ("model", "slice", "window"),
        per_window(lambda window: window.items),
        "Items in the newest window: how much the ratios and means beside it rest on.",
    ),
    Scalar(
        "leadline_window_end_timestamp_seconds",
        "gauge",
        ("model", "slice", "window"),
        per_window(lambda window: window.end),
        "Where the newest window ends, in the records' own time. Far behind now: the stream lags or dried up.",
    ),
    Scalar(
        "leadline_shift_metric",
        "gauge",
        ("model", "slice", "window", "metric"),
        shift_metrics,
        "How the window's items compare with the source by one measure. Values differ in scale and direction, "
        "see docs/ESTIMATES.md: q, nearest, mano and agreement fall as the shift grows, all others rise. That one "
        "moves says that inputs changed, not that the model suffers: for that see leadline_accuracy_drop_ratio.",
    ),
    Scalar(
        "leadline_accuracy_drop_ratio",
        "gauge",
        ("model", "slice", "window", "bound"),
        drops,
        "Accuracy lost against the source, estimated without labels: 0.05 is 5 points, below 0 is a gain. bound "
        "is estimate, or low and high, between which the truth probably lies. All three are absent while "
        "leadline_estimate_available is 0: never read absent as no drop.",
    ),
    Scalar(
        "leadline_estimate_available",
        "gauge",
        ("model", "slice", "window"),
        per_estimate(lambda estimate: not estimate.reason),
        "1 if accuracy lost in the newest window could be estimated, 0 if there is no saying, for example for "
        "too few items; `leadline run` prints why. Absent before the first estimate, and where it broke: see "
        "leadline_estimate_failures_total.",
    ),
    Scalar(
        "leadline_estimate_inside_domains",
        "gauge",
        ("model", "slice", "window"),
        per_estimate(lambda estimate: float("nan") if estimate.reason else estimate.inside_domains),
        "1 if the window is within what the reference domains showed, 0 if it is unlike all of them: the drop is "
        "then a guess, and only labels would tell. Absent where there is no estimate.",
    ),
    Scalar(
        "leadline_last_estimate_timestamp_seconds",
        "gauge",
        ("model", "slice"),
        last_estimates,
        "When a window of the slice was last estimated, with a number or with a reason for none. Old alone is no "
        "fault: a slice is estimated only when one of its windows ends, which takes records. Where windows of "
        "the slice kept ending since, for several panes, estimates fail or hang. Absent without reference "
        "domains.",
    ),
    Scalar(
        "leadline_estimate_started_timestamp_seconds",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.estimation.running_since},
        "When the estimate now being made was begun; absent while none is. Alert when it is older than 5 "
        "minutes: it hangs. Records are scored as before, but nothing is estimated until the agent is restarted.",
    ),
    Scalar(
        "leadline_estimate_failures_total",
        "counter",
        ("reason",),
        lambda report: by_name(report.estimation.failures),
        "Estimates that broke: memory, arithmetic, or any other error. The window is left without an estimate "
        "and the next one is tried; the log says what broke, once.",
    ),
    Scalar(
        "leadline_estimates_missed_total",
        "counter",
        NO_LABELS,
        lambda report: {NO_LABELS: report.estimation.missed},
        "Times estimates were due while earlier ones were still being made; nothing is lost, the newest windows "
        "come next. Rising steadily: raise `estimate.every`, or one hangs.",
    ),
    Distribution(
        "leadline_estimate_seconds",
        NO_LABELS,
        lambda report: {NO_LABELS: report.estimation.seconds},
        "Time one window's estimate took, beside the scoring.",
    ),
    *DECISIONS,
    Distribution(
        "leadline_encode_seconds",
        NO_LABELS,
        lambda report: {NO_LABELS: report.encode_seconds},
        "Time the encoder took for a batch.",
    ),
    Distribution(
        "leadline_score_seconds",
        NO_LABELS,
        lambda report: {NO_LABELS: report.score_seconds},
        "Time all detectors took for a batch.",
    ),
    Distribution(
        "leadline_batch_records",
        NO_LABELS,
        lambda report: {NO_LABELS: report.batch_records},
        "Records in a scored batch. Always at the top: the agent is catching up.",
    ),
    *NOTIFICATIONS,
    *UPKEEP,
)

CONVENTIONS = """\
# Metrics

Served at `/metrics` as Prometheus text or OpenMetrics. Generated from the table in `exporters/metrics.py`:
`python -m exporters.metrics > docs/METRICS.md`.

## Conventions

- Scores, p-values and depth are **higher when an item is more in-distribution**.
- Ratios are fractions: 0.052, not 5.2. Times are in seconds.
- Moments are timestamps in epoch seconds, not ages: `time() - ..._timestamp_seconds` is the age.
- Counters and histograms run since the agent started. A histogram's last bucket is `le="+Inf"`.
- What is not known is absent, never NaN and never 0. A slice without recent records has no window series.
- An estimate comes a little after its window. If none follows, it disappears once its window lies wholly in
  the past.
- Every scrape is one consistent snapshot, in which each record read is in exactly one place:
  received = processed + discarded + dead-lettered + in flight. A request and its response are one record.
- `window` is `short` or `long`. Slices beyond the configured number share the slice `__other__`.

## Examples

Alert rules with tests are in [deploy/prometheus](../deploy/prometheus/leadline.rules.yml), and
[RUNBOOK.md](RUNBOOK.md) says what to do about each.

Slices for which labels are asked, whichever replica asks:

```promql
max by (model, slice) (leadline_annotate) == 1
```

How far the evidence for a shift has come, 1 being what it takes:

```promql
leadline_shift_evidence / leadline_shift_evidence_threshold
```

The share of items out of distribution, where both windows agree that it is more than twice the usual 0.05:

```promql
min without (window) (leadline_ood_ratio{detector="knn"}) > 0.1
```

Slices that have probably lost more than 5 points of accuracy, by both windows. The count is there because the
least of one window is that window: both must have an estimate, and lie inside what the domains showed.

```promql
min without (window) (leadline_accuracy_drop_ratio{bound="low"}) > 0.05
and count without (window) (
  leadline_accuracy_drop_ratio{bound="low"} and ignoring (bound) leadline_estimate_inside_domains == 1
) == 2
```

An estimate that hangs:

```promql
time() - leadline_estimate_started_timestamp_seconds > 300
```

Slices whose newest window ends more than 15 minutes ago:

```promql
time() - leadline_window_end_timestamp_seconds{window="short"} > 900
```

Records lost or counted twice; 0 unless Leadline has a bug:

```promql
sum by (instance) (leadline_events_received_total)
- sum by (instance) (
  {__name__=~"leadline_events_(processed_total|discarded_total|in_flight)|leadline_dead_letters_total"}
)
```

Topics in which more records wait, over all replicas, than a quarter of an hour ago:

```promql
sum by (topic) (leadline_kafka_consumer_lag_records)
> sum by (topic) (leadline_kafka_consumer_lag_records offset 15m) + 1000
```

Reading has stopped until a person steps in:

```promql
max by (instance, reason) (leadline_source_stopped) == 1
```

## All metrics

| Name | Kind | Labels | Meaning |
| --- | --- | --- | --- |
"""


def document() -> str:
    """The whole of docs/METRICS.md."""
    return CONVENTIONS + "".join(map(_row, METRICS))


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"


if __name__ == "__main__":
    sys.stdout.write(document())

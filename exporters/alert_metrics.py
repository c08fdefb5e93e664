"""The part of the table of metrics that tells what is decided, which labels came back, and who was told."""

from __future__ import annotations

from exporters.alert_samples import (
    batches_written,
    labels_returned,
    notifications,
    per_open_episode,
    per_realised,
    per_slice,
    realised_bounds,
    reasons,
)
from exporters.metric import Metric, Scalar
from exporters.samples import NO_LABELS

SLICE = ("model", "slice")

DECISIONS: tuple[Metric, ...] = (
    Scalar(
        "leadline_accuracy_drop_limit_ratio",
        "gauge",
        ("model",),
        lambda report: {(report.info.model,): report.alerts.limit},
        "How much accuracy may be lost before labels are asked for: `alerts.max_drop` of the configuration. To be "
        "drawn beside leadline_accuracy_drop_ratio. Absent where the agent decides nothing.",
    ),
    Scalar(
        "leadline_shift_evidence",
        "gauge",
        SLICE,
        per_slice(lambda decision: decision.evidence),
        "Evidence that the slice's records are no longer like the source, as log10 of an e-value: 3 means a "
        "thousand to one. It may be looked at at any moment. 0 if nothing changed; during a shift it climbs to a "
        "little above the threshold and stays there.",
    ),
    Scalar(
        "leadline_shift_evidence_threshold",
        "gauge",
        SLICE,
        per_slice(lambda decision: decision.threshold),
        "What leadline_shift_evidence must reach for a shift to be seen, log10. It follows from "
        "`alerts.false_alarms_per_month`: change that instead of comparing with a number of your own.",
    ),
    Scalar(
        "leadline_shift_seen",
        "gauge",
        SLICE,
        per_slice(lambda decision: decision.shift_seen),
        "1 from the threshold on until the evidence is below its square root (half of it on this scale), 0 if "
        "not. Information, no reason to act: a shift that costs no accuracy is harmless. See leadline_annotate.",
    ),
    Scalar(
        "leadline_annotate",
        "gauge",
        SLICE,
        per_slice(lambda decision: decision.annotate),
        "1 while labels are asked for: a shift was seen, and accuracy is lost beyond the limit or nobody can tell "
        "without labels. This is what pages; docs/RUNBOOK.md says what to do. 0 if not.",
    ),
    Scalar(
        "leadline_annotate_reason",
        "gauge",
        (*SLICE, "reason"),
        reasons,
        "1 for the reason why labels are asked for. drop: even the lower bound of the estimated drop is above the "
        "limit. unknown: only labels can tell, because the records are unlike every reference domain, or because "
        "the estimate is above the limit and too uncertain. Both are 0 while none are asked for.",
    ),
    Scalar(
        "leadline_episode_start_timestamp_seconds",
        "gauge",
        SLICE,
        per_open_episode(lambda episode: episode.since),
        "When the change began for which labels are asked for, in the records' own time. Absent while none are.",
    ),
    Scalar(
        "leadline_annotation_items_needed",
        "gauge",
        SLICE,
        per_slice(lambda decision: decision.needed),
        "How many labels are asked for: they give the accuracy an interval of half width `alerts.precision`, "
        "which does not always decide. 0 while none are asked for. `leadline annotate export` has the items.",
    ),
    Scalar(
        "leadline_annotation_batch_timestamp_seconds",
        "gauge",
        SLICE,
        batches_written,
        "When the slice's newest annotation batch was written: that of its open episode, or else of its newest "
        "one, or else of a batch drawn with `leadline annotate export --now`. Absent before the first.",
    ),
    Scalar(
        "leadline_annotation_labels",
        "gauge",
        SLICE,
        labels_returned,
        "Labels that came back for the slice's newest annotation batch. Compare with "
        "leadline_annotation_items_needed. Absent before the first batch.",
    ),
    Scalar(
        "leadline_annotation_texts_lost_total",
        "counter",
        NO_LABELS,
        lambda report: {NO_LABELS: report.alerts.texts_lost},
        "Texts that were not kept for annotation because the function named in `annotation.redact` broke on them. "
        "The records themselves count as always. Rising: mend that function; the log names the kind of error.",
    ),
    Scalar(
        "leadline_annotation_batch_failures_total",
        "counter",
        NO_LABELS,
        lambda report: {NO_LABELS: report.alerts.batch_failures},
        "Annotation batches that could not be written: `annotation.path` is full or not writable, see the log. "
        "leadline_annotate is 1 all the same.",
    ),
    Scalar(
        "leadline_realised_drop_ratio",
        "gauge",
        (*SLICE, "bound"),
        realised_bounds(lambda realised: realised.drop),
        "Accuracy really lost against the source, by the labels of the slice's newest annotation batch alone: "
        "0.05 is 5 points, below 0 is a gain. bound is estimate, or low and high. Absent until the first label is "
        "back; from few labels the bounds are far apart. Always absent for `task: tokens`. It tells of the "
        "batch's items, so of the time before leadline_annotation_batch_timestamp_seconds.",
    ),
    Scalar(
        "leadline_combined_drop_ratio",
        "gauge",
        (*SLICE, "bound"),
        realised_bounds(lambda realised: realised.combined),
        "The same by labels and predictions together, which needs fewer labels for the same certainty "
        "(prediction-powered). Absent where leadline_realised_drop_ratio is.",
    ),
    Scalar(
        "leadline_estimate_error_ratio",
        "gauge",
        SLICE,
        per_realised(lambda realised: realised.error),
        "How far the estimate without labels was off when labels were last asked for: realised less estimated, so "
        "0.02 means that it really was 2 points worse. Often far from 0: make the labelled items a reference "
        "domain. Absent where leadline_realised_drop_ratio is, or where nothing had been estimated.",
    ),
)

NOTIFICATIONS: tuple[Metric, ...] = (
    Scalar(
        "leadline_notifications_total",
        "counter",
        ("receiver", "outcome"),
        notifications,
        "Messages about episodes to Grafana, or to an Alertmanager directly: sent; failed tries, each of which is "
        "tried again; dropped, because too many waited. Failed rising and sent not: look at the receiver, and at "
        "the agent's token for it. Scoring is not affected. Absent without such a receiver.",
    ),
    Scalar(
        "leadline_notifications_waiting",
        "gauge",
        ("receiver",),
        lambda report: {(receiver,): told.waiting for receiver, told in report.notified.items()},
        "Messages about episodes that Grafana has not taken yet; of Alertmanagers, how many have not heard how "
        "things stand. Not back at 0 for long: the receiver is away or refuses them.",
    ),
)

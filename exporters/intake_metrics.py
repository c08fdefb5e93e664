"""The part of the table of metrics that tells how records come in, and how state and configuration are kept."""

from __future__ import annotations

from exporters.metric import Metric, Scalar
from exporters.samples import NO_LABELS, by_name, consumer_lag, source_stops

INTAKE: tuple[Metric, ...] = (
    Scalar(
        "leadline_source_assigned",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.source.assigned},
        "1 if the source has something to read from. 0 on one of several replicas for long: there are more "
        "replicas than partitions. 0 on all: look at the brokers.",
    ),
    Scalar(
        "leadline_source_paused",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.source.paused},
        "1 while reading waits for scoring to catch up, or has stopped. Nothing is lost meanwhile. Mostly 1: the "
        "agent is too slow for its traffic, give it more cores or replicas.",
    ),
    Scalar(
        "leadline_source_queue_bytes",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.source.queue_bytes},
        "Bytes read and not yet decoded. At `queue_bytes` of the configuration reading pauses, or senders are "
        "answered 503.",
    ),
    Scalar(
        "leadline_source_stopped",
        "gauge",
        ("reason",),
        source_stops,
        "1 if reading has stopped until a person steps in, 0 if not. schema_change: too many records could not be "
        "used, look at the dead letters and mend the sender. out_of_range: what comes next is no longer in the "
        "topic. Nothing is skipped meanwhile; restart the agent once it is mended.",
    ),
    Scalar(
        "leadline_source_stuck",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.source.stuck},
        "1 if records wait and none has been read for longer than `stuck` of the configuration. /livez fails "
        "then, since only a restart mends it.",
    ),
    Scalar(
        "leadline_source_events_total",
        "counter",
        ("event",),
        lambda report: by_name(report.source.events),
        "What happened to the source itself. Of Kafka: partitions assigned, revoked and lost; out_of_range, "
        "topic_recreated and overlap, where records may have been skipped or read twice; commit_failed, which the "
        "next one makes good. Of the HTTP intake: senders that went away or were refused; lost_at_stop, requests "
        "answered 200 that `drain` was too short for; token_unreadable. A few partitions moving is normal; moving "
        "all the time, members keep falling out of the group.",
    ),
    Scalar(
        "leadline_kafka_consumer_lag_records",
        "gauge",
        ("topic", "partition"),
        consumer_lag,
        "Records of a partition that this agent has yet to read. Growing: it is too slow or has stopped. Each "
        "replica shows its own partitions: sum over all of them. Absent for other sources.",
    ),
    Scalar(
        "leadline_intake_responses_total",
        "counter",
        ("status",),
        lambda report: by_name(report.source.responses),
        "Answers of the HTTP intake by status. 503: the queue is full, and what was refused is lost unless the "
        "sender tries again. 401: a wrong token. 413: a body above `most_bytes`. 429: more requests at once than "
        "`concurrency`.",
    ),
    Scalar(
        "leadline_forwarded_events_total",
        "counter",
        ("outcome",),
        lambda report: by_name(report.source.forwarded),
        "Events passed on to the second receiver: sent; failed, which means that it did not take them; dropped, "
        "which means that it is too slow. The intake itself is not affected.",
    ),
)

UPKEEP: tuple[Metric, ...] = (
    Scalar(
        "leadline_checkpoint_last_success_timestamp_seconds",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.upkeep.last_checkpoint},
        "When windows and positions last became durable. Old: look at the state's disk, for a restart would "
        "read everything since then again. Absent before the first checkpoint.",
    ),
    Scalar(
        "leadline_checkpoint_failures_total",
        "counter",
        NO_LABELS,
        lambda report: {NO_LABELS: report.upkeep.checkpoint_failures},
        "Checkpoints that could not be written; nothing is committed then, and the next one is tried. Rising: the "
        "state's disk is full or read-only, see the log.",
    ),
    Scalar(
        "leadline_state_quarantined_total",
        "counter",
        ("reason",),
        lambda report: by_name(report.upkeep.quarantined),
        "States that could not be used and were put aside, so that the agent could start: corrupt, truncated, of "
        "a future_version, or of another owner, which is another reference or source. The windows begin afresh; "
        "the log says where the file is.",
    ),
    Scalar(
        "leadline_config_last_reload_successful",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.upkeep.reload_ok},
        "1 if the newest configuration is the one in use. 0: the last reload was refused and the old one stays in "
        "force; the log says what is wrong, and a restart would fail on it.",
    ),
    Scalar(
        "leadline_config_last_reload_success_timestamp_seconds",
        "gauge",
        NO_LABELS,
        lambda report: {NO_LABELS: report.upkeep.reloaded},
        "When the configuration in use was taken up.",
    ),
)

"""The overview, further down: whether the estimates can be trusted, and whether the agents are well."""

from __future__ import annotations

from deploy.grafana.dashboard import Row
from deploy.grafana.panels import GREEN, RED, YELLOW, Query, Series
from deploy.grafana.queries import RATE, SERIES_LINK, worst
from deploy.grafana.table import Column, Table

YES_IS_GOOD = ((1, "yes", GREEN), (0, "NO", RED))
NO_IS_GOOD = ((0, "no", GREEN), (1, "YES", RED))


TRUST = Row(
    300,
    "Are the estimates made, and were they right?",
    (
        Series(
            title="Age of the newest estimate",
            about="How long ago each slice was last estimated. A slice without records grows old and is fine; "
            "all of an agent's slices growing old while records come: estimates fail or hang.",
            unit="s",
            low=0,
            queries=(
                Query(f"time() - {worst('leadline_last_estimate_timestamp_seconds')}", "{{model}} {{slice}}"),
            ),
            link=SERIES_LINK,
            width=8,
            empty="no estimate yet",
        ),
        Series(
            title="Estimates that failed or came late",
            about="Failed: the window is left without an estimate; the log says what broke. Missed: the next "
            "were due before these were made; raise `estimate.every` if it goes on.",
            unit="short",
            low=0,
            queries=(
                Query(f"sum by (reason) (increase(leadline_estimate_failures_total{RATE}))", "failed: {{reason}}"),
                Query(f"sum(increase(leadline_estimates_missed_total{RATE}))", "missed"),
            ),
            width=8,
        ),
        Series(
            title="Drop by labels less drop by estimate",
            about="Where labels came back: how far the estimate without labels was off. Above 0 it was too "
            "hopeful. Far from 0 again and again: make the labelled items a reference domain, then fit again.",
            unit="percentunit",
            queries=(Query(worst("leadline_estimate_error_ratio"), "{{model}} {{slice}}"),),
            link=SERIES_LINK,
            width=8,
            empty="no labels yet",
        ),
    ),
)

AGENTS = Row(
    400,
    "Are the agents well?",
    (
        Table(
            title="Agents",
            about="One row an agent. 'stopped': reading waits for a person, see docs/RELIABILITY.md. 'paused': "
            "it is too slow for its traffic. 'config' NO: the newest configuration was refused, and a restart "
            "would fail on it. An old heartbeat: it hangs. An old checkpoint: look at the state's disk.",
            height=7,
            empty="No agent answers.",
            order="stopped",
            columns=(
                Column("instance"),
                Column("model", "max by (instance, model, reference_id) (leadline_model_info)", label=True),
                Column("reference_id"),
                Column("version", "max by (instance, version) (leadline_build_info)", label=True),
                Column("provider", "max by (instance, provider) (leadline_encoder_info)", label=True),
                Column("reads", "max by (instance) (leadline_ready)", words=YES_IS_GOOD),
                Column("stopped", "max by (instance) (leadline_source_stopped)", words=NO_IS_GOOD),
                Column("stuck", "max by (instance) (leadline_source_stuck)", words=NO_IS_GOOD),
                Column(
                    "paused",
                    "max by (instance) (leadline_source_paused)",
                    words=((0, "no", GREEN), (1, "yes", YELLOW)),
                ),
                Column("config", "max by (instance) (leadline_config_last_reload_successful)", words=YES_IS_GOOD),
                Column(
                    "heartbeat",
                    "1000 * max by (instance) (leadline_heartbeat_timestamp_seconds)",
                    "dateTimeFromNow",
                ),
                Column(
                    "checkpoint",
                    "1000 * max by (instance) (leadline_checkpoint_last_success_timestamp_seconds)",
                    "dateTimeFromNow",
                ),
            ),
        ),
        Series(
            title="Records scored",
            about="Records a second, by model. 0 while the service has traffic: nothing reaches the agent, "
            "look at its source.",
            unit="eps",
            low=0,
            queries=(Query(f"sum by (model) (rate(leadline_events_processed_total{RATE}))", "{{model}}"),),
            width=8,
        ),
        Series(
            title="Records given up",
            about="Records a second that could not be used: discarded, or kept whole as dead letters. A jump: "
            "the sender changed its format. docs/RECORDS.md says how to look at dead letters and send them "
            "again.",
            unit="eps",
            low=0,
            queries=(
                Query(f"sum by (reason) (rate(leadline_events_discarded_total{RATE}))", "discarded: {{reason}}"),
                Query(f"sum by (reason) (rate(leadline_dead_letters_total{RATE}))", "dead letter: {{reason}}"),
            ),
            width=8,
            empty="none",
        ),
        Series(
            title="Records that wait in Kafka",
            about="Records that no agent has read yet, over all partitions. Growing: the agents are too slow "
            "or have stopped. Nothing is lost until the topic's retention ends.",
            unit="short",
            low=0,
            queries=(Query("sum by (topic) (leadline_kafka_consumer_lag_records)", "{{topic}}"),),
            width=8,
            empty="no Kafka source",
        ),
        Series(
            title="Age of the newest checkpoint",
            about="What a restart would read again. Growing: the state's disk is full, read-only or slow.",
            unit="s",
            low=0,
            queries=(
                Query(
                    "time() - max by (instance) (leadline_checkpoint_last_success_timestamp_seconds)",
                    "{{instance}}",
                ),
            ),
            width=8,
            empty="no checkpoint yet",
        ),
        Series(
            title="Failures to keep things",
            about="Checkpoints and annotation batches that could not be written, states put aside as unusable: "
            "look at the disk and the log.",
            unit="short",
            low=0,
            queries=(
                Query(f"sum(increase(leadline_checkpoint_failures_total{RATE}))", "checkpoints not written"),
                Query(
                    f"sum(increase(leadline_annotation_batch_failures_total{RATE}))",
                    "annotation batches not written",
                ),
                Query(
                    f"sum by (reason) (increase(leadline_state_quarantined_total{RATE}))",
                    "state put aside: {{reason}}",
                ),
            ),
            width=8,
        ),
        Series(
            title="Telling others",
            about="Messages to Grafana and Alertmanager. 'waiting' growing, or 'failed' going on: the receiver "
            "is down or refuses the token; what waits is sent once it answers. 'dropped' is lost.",
            unit="short",
            low=0,
            queries=(
                Query(
                    f"sum by (receiver, outcome) (increase(leadline_notifications_total{RATE}))",
                    "{{receiver}}: {{outcome}}",
                ),
                Query("sum by (receiver) (leadline_notifications_waiting)", "{{receiver}}: waiting"),
            ),
            width=8,
            empty="no receiver",
        ),
    ),
)

"""The page of one model, further down: its inputs, its answers, and the agents that watch it."""

from __future__ import annotations

from deploy.grafana.dashboard import Row
from deploy.grafana.panels import BLUE, DASHES, GREEN, ORANGE, RED, STRONG, Heatmap, Query, Series, Shape
from deploy.grafana.queries import ITS_AGENTS, MODEL, RATE, SLICE, WINDOW, highest, quantile


def latency(title: str, about: str, histogram: str, unit: str = "s") -> Series:
    """Median and 95th percentile of a histogram."""
    return Series(
        title=title,
        about=about,
        unit=unit,
        low=0,
        queries=(Query(quantile(0.5, histogram), "median"), Query(quantile(0.95, histogram), "95 %")),
        width=8,
    )


INPUTS = Row(
    300,
    "Did the inputs change?",
    (
        Series(
            title="Evidence of a shift",
            about="How much speaks against 'nothing changed', as a power of ten: 3 is a thousand to one. At "
            "the dashed threshold, which the monthly budget of false alarms sets, a shift is seen.",
            unit="short",
            low=0,
            queries=(
                Query(highest("leadline_shift_evidence", SLICE), "evidence"),
                Query(highest("leadline_shift_evidence_threshold", SLICE), "threshold"),
            ),
            shapes=(Shape("evidence", STRONG, BLUE), Shape("threshold", DASHES, RED)),
            empty="nothing decided",
        ),
        Series(
            title="Items out of distribution, by detector",
            about="The share of items that a detector finds unlike the source. The line is 5 %, which is what "
            "to expect if nothing changed. All detectors rising: the texts are new. One alone: little.",
            unit="percentunit",
            low=0,
            queries=(Query(highest("leadline_ood_ratio", WINDOW, "detector"), "{{detector}}"),),
            steps=((None, GREEN), (0.05, ORANGE)),
            line=True,
            empty="too few items",
        ),
        Series(
            title="Depth among the source's (Q)",
            about="The mean rank of the items' depth among the source's. About 0.5 if nothing changed, towards "
            "0 as texts move away from what the model was trained on.",
            unit="percentunit",
            low=0,
            high=1,
            queries=(Query(f"min(leadline_depth_q{{{WINDOW}}})", "Q"),),
            steps=((None, ORANGE), (0.5, GREEN)),
            line=True,
            width=8,
            empty="too few items",
        ),
        Series(
            title="Shift metrics",
            about="The window against the source by many measures. q, nearest, mano and agreement fall as the "
            "shift grows, all others rise; their scales differ, so look at how each moves. docs/ESTIMATES.md "
            "says what each is. Over several agents: their mean.",
            unit="short",
            queries=(Query(f"avg by (metric) (leadline_shift_metric{{{WINDOW}}})", "{{metric}}"),),
            width=8,
            empty="no estimate",
        ),
        Heatmap(
            title="How ordinary items look: p-values of ${detector}",
            about="The share of items in each range of p-values; the ranges below 0.1 are narrower. As ever if "
            "nothing changed; the lowest rows darken under drift.",
            unit="percentunit",
            queries=(
                Query(
                    "sum by (le) (increase(leadline_item_p_value_bucket"
                    f"{{{SLICE},detector=`${{detector:raw}}`}}{RATE}))"
                    " / scalar(sum(increase(leadline_item_p_value_count"
                    f"{{{SLICE},detector=`${{detector:raw}}`}}{RATE})))",
                    "{{le}}",
                ),
            ),
            width=8,
            empty="no records",
        ),
    ),
)

ANSWERS = Row(
    400,
    "What does the model answer?",
    (
        Series(
            title="Predicted classes",
            about="The share of each class among the predictions. Everything in one class: suspect the model "
            "or its input, and no estimate sees it. Over several agents: their mean.",
            unit="percentunit",
            low=0,
            high=1,
            queries=(Query(f"avg by (class) (leadline_predicted_class_ratio{{{WINDOW}}})", "{{class}}"),),
            stacked=True,
            width=8,
            empty="too few items",
        ),
        Series(
            title="Confidence",
            about="The mean calibrated probability of the predicted class. Falling: the model is less sure. "
            "High is no proof of accuracy. Over several agents: their mean.",
            unit="percentunit",
            low=0,
            high=1,
            queries=(Query(f"avg(leadline_confidence_mean{{{WINDOW}}})", "confidence"),),
            width=8,
            empty="too few items",
        ),
        Series(
            title="Items in the window",
            about="How much everything here rests on. Few items: wide intervals, or none.",
            unit="short",
            low=0,
            queries=(Query(f"sum(leadline_window_items{{{WINDOW}}})", "items"),),
            width=8,
            empty="no records",
        ),
    ),
)

AGENTS = Row(
    500,
    "The agents that watch this model",
    (
        Series(
            title="Records",
            about="Records a second: scored, and all that were read by these agents. Read without being "
            "scored: they wait, or could not be used; see the overview.",
            unit="eps",
            low=0,
            queries=(
                Query(f"sum(rate(leadline_events_processed_total{{{MODEL}}}{RATE}))", "scored"),
                Query(f"sum(rate(leadline_events_received_total{RATE}) {ITS_AGENTS})", "read"),
            ),
            width=8,
        ),
        latency(
            "Time to encode a batch",
            "Most of the work. Rising: larger batches, longer texts, or too few cores. No encoder, no time: the "
            "features came with the records.",
            "leadline_encode_seconds",
        ),
        latency(
            "Time to score a batch",
            "All detectors together. It should be a small part of the time to encode.",
            "leadline_score_seconds",
        ),
        latency(
            "Records in a batch",
            "How many records are scored at once. Always at the top: the agent is catching up.",
            "leadline_batch_records",
            "short",
        ),
        latency(
            "Time to estimate a window",
            "Beside the scoring, on a thread of its own. Near `estimate.every`: estimates come late.",
            "leadline_estimate_seconds",
        ),
        Series(
            title="Records that wait in Kafka",
            about="Records that these agents have yet to read. Growing: too slow, or stopped.",
            unit="short",
            low=0,
            queries=(Query(f"sum by (topic) (leadline_kafka_consumer_lag_records {ITS_AGENTS})", "{{topic}}"),),
            width=8,
            empty="no Kafka source",
        ),
    ),
)

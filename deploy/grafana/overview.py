"""The overview: all models and slices. What asks for labels, since when, how sure, and are the agents well.

Several agents may watch one model, each a part of its traffic: of decisions and drops the worst of them counts,
rates and counts are added up.
"""

from __future__ import annotations

from deploy.grafana.dashboard import MODEL_UID, OVERVIEW_UID, Dashboard, Row, Tagged
from deploy.grafana.overview_agents import AGENTS, TRUST
from deploy.grafana.panels import BLUE, GREEN, ORANGE, RED, YELLOW, Query, Series, Stat, Steps, Timeline
from deploy.grafana.queries import CELL_LINK, SERIES_LINK, asking, drop, worst
from deploy.grafana.table import Column, Table

ALARM: Steps = ((None, GREEN), (1, RED))
STATES = (
    (0, "as the source", GREEN),
    (1, "shift seen", YELLOW),
    (2, "cannot tell", ORANGE),
    (3, "accuracy lost", RED),
)
MODELS_NOW = "group by (model) (leadline_model_info)"
MODELS_LATELY = "group by (model) (last_over_time(leadline_model_info[6h]))"
LOST = worst('leadline_annotate_reason{reason="drop"}')
STATE = f"clamp_max({worst('leadline_shift_seen')} + 2 * {worst('leadline_annotate')}, 2) + {LOST}"

HURTING = Row(
    100,
    "Is it hurting?",
    (
        Stat(
            title="Slices that ask for labels",
            about="How many slices page: their inputs changed for certain, and either accuracy is lost beyond "
            "the limit, or nobody can tell without labels. 0 is good. Otherwise: the table below says which.",
            unit="short",
            queries=(Query("sum(max by (model, slice) (leadline_annotate))", "slices"),),
            steps=ALARM,
            empty="nothing decided",
        ),
        Stat(
            title="Oldest change still open",
            about="When the oldest change that asks for labels began, by the records' own time. Look at what "
            "was rolled out, or who began to send, just before.",
            unit="dateTimeFromNow",
            queries=(Query("1000 * min(leadline_episode_start_timestamp_seconds)", "since"),),
            empty="none",
        ),
        Stat(
            title="Largest estimated drop",
            about="The slice with the largest estimate of lost accuracy in its long window, without labels. It "
            "is only an estimate, and no page by itself: see its interval in the tables.",
            unit="percentunit",
            decimals=1,
            queries=(Query(f"topk(1, {worst(drop('estimate'))})", "{{model}} {{slice}}"),),
            empty="no estimate",
        ),
        Stat(
            title="Slices with a shift",
            about="How many slices get other inputs than the source had, for certain. That alone hurts nobody "
            "and pages nobody.",
            unit="short",
            queries=(Query("sum(max by (model, slice) (leadline_shift_seen))", "slices"),),
            steps=((None, GREEN), (1, YELLOW)),
            empty="nothing decided",
            width=3,
        ),
        Stat(
            title="Labels needed",
            about="How many labels are asked for, over all slices that ask. `leadline annotate export` "
            "writes the items to label.",
            unit="short",
            queries=(Query("sum(max by (model, slice) (leadline_annotation_items_needed))", "labels"),),
            steps=((None, GREEN), (1, BLUE)),
            empty="nothing decided",
            width=3,
        ),
        Stat(
            title="Agents not reading",
            about="Agents that answer and read no records. Whatever they should watch goes unwatched: see the "
            "table of agents below. An agent that does not answer at all is not in this number.",
            unit="short",
            queries=(Query("count(leadline_ready) - sum(leadline_ready)", "agents"),),
            steps=ALARM,
            empty="no agent",
            width=3,
        ),
        Stat(
            title="Models unwatched",
            about="Models that an agent watched within the last 6 hours and none does now. Nobody tells "
            "whether they are hurt: see why their agents do not answer.",
            unit="short",
            queries=(Query(f"count({MODELS_LATELY}) - (count({MODELS_NOW}) or vector(0))", "models"),),
            steps=ALARM,
            empty="no agent",
            width=3,
        ),
        Table(
            title="What asks for labels",
            about="One row a slice that pages. The truth probably lies between 'at least' and 'at most'. "
            "'Cannot tell': unlike every labelled domain, or too uncertain: a drop beside it is a guess; label "
            "the items it needs. 'By labels' is the drop as far as labels have come back. Click a row for its "
            "model.",
            height=7,
            link=CELL_LINK,
            empty="Nothing asks for labels.",
            order="at least",
            columns=(
                Column("model"),
                Column("slice"),
                Column(
                    "why",
                    asking('leadline_annotate_reason{reason="drop"}'),
                    words=((0, "cannot tell", ORANGE), (1, "accuracy lost", RED)),
                ),
                Column("since", asking("1000 * leadline_episode_start_timestamp_seconds"), "dateTimeFromNow"),
                Column("at least", asking(drop("low")), "percentunit"),
                Column("estimated drop", asking(drop("estimate")), "percentunit"),
                Column("at most", asking(drop("high")), "percentunit"),
                Column(
                    "limit",
                    f"0 * {worst('leadline_annotate == 1')}"
                    " + on (model) group_left max by (model) (leadline_accuracy_drop_limit_ratio)",
                    "percentunit",
                ),
                Column("by labels", asking('leadline_realised_drop_ratio{bound="estimate"}'), "percentunit"),
                Column("labels needed", asking("leadline_annotation_items_needed"), "short"),
                Column("labels back", asking("leadline_annotation_labels"), "short"),
            ),
        ),
    ),
)

SLICES = Row(
    200,
    "Every model and slice",
    (
        Table(
            title="Slices",
            about="One row a slice. 'evidence' is how far the proof of a shift has come: at 100 % one is seen. "
            "'tellable' NO: the window is unlike every labelled domain, so that the estimate is a guess. "
            "Without a drop there is no saying; that never means no drop. Click a row for its model.",
            height=10,
            link=CELL_LINK,
            empty="No slice has had records.",
            order="state",
            columns=(
                Column("model"),
                Column("slice"),
                Column("state", STATE, words=STATES),
                Column(
                    "evidence",
                    worst("leadline_shift_evidence / leadline_shift_evidence_threshold"),
                    "percentunit",
                    steps=((None, GREEN), (1, YELLOW)),
                ),
                Column("at least", worst(drop("low")), "percentunit"),
                Column("estimated drop", worst(drop("estimate")), "percentunit"),
                Column("at most", worst(drop("high")), "percentunit"),
                Column(
                    "tellable",
                    'min by (model, slice) (leadline_estimate_inside_domains{window="long"})',
                    words=((1, "yes", GREEN), (0, "NO", ORANGE)),
                ),
                Column("items", 'sum by (model, slice) (leadline_window_items{window="long"})', "short"),
                Column(
                    "newest window",
                    worst('1000 * leadline_window_end_timestamp_seconds{window="short"}'),
                    "dateTimeFromNow",
                ),
                Column(
                    "last estimate", worst("1000 * leadline_last_estimate_timestamp_seconds"), "dateTimeFromNow"
                ),
            ),
        ),
        Timeline(
            title="What was decided",
            about="Red and orange: labels were asked for, because accuracy is lost or because nobody can tell. "
            "Yellow: a shift was seen that does not hurt as far as can be told. A gap: the agent decided "
            "nothing, or did not answer.",
            unit="short",
            queries=(Query(STATE, "{{model}} {{slice}}"),),
            words=STATES,
            link=SERIES_LINK,
            width=12,
            empty="nothing decided",
        ),
        Series(
            title="Estimated drop, long window",
            about="Accuracy lost against the source, without labels; below 0 is a gain. Dashed: the limit "
            "above which a drop counts as harm.",
            unit="percentunit",
            queries=(
                Query(worst(drop("estimate")), "{{model}} {{slice}}"),
                Query("max by (model) (leadline_accuracy_drop_limit_ratio)", "limit of {{model}}"),
            ),
            link=SERIES_LINK,
            empty="no estimate",
        ),
    ),
)

OVERVIEW = Dashboard(
    uid=OVERVIEW_UID,
    title="Leadline: overview",
    about="Which models lose accuracy to drift, since when, and whether the agents that say so are well. "
    "Generated, see docs/GRAFANA.md.",
    since="now-24h",
    rows=(HURTING, SLICES, TRUST, AGENTS),
    variables=(),
    marks=(Tagged("Episodes"),),
    other=("One model", MODEL_UID),
)

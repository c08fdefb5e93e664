"""The page of one model, slice and window."""

from __future__ import annotations

from deploy.grafana.dashboard import MODEL_UID, OVERVIEW_UID, Dashboard, Marked, Row, Tagged, Variable
from deploy.grafana.model_inputs import AGENTS, ANSWERS, INPUTS
from deploy.grafana.panels import (
    BLUE,
    DASHES,
    GREEN,
    ORANGE,
    RED,
    STRONG,
    YELLOW,
    Json,
    Query,
    Series,
    Shape,
    Stat,
    Timeline,
)
from deploy.grafana.queries import MODEL, SLICE, WINDOW, bound, highest

BAND: Json = {"lineWidth": 0, "fillBelowTo": "at least", "fillOpacity": 20, "showPoints": "never"}
EDGE: Json = {"lineWidth": 0, "showPoints": "never"}
INTERVAL = (
    Shape("at least", EDGE, BLUE),
    Shape("at most", BAND, BLUE),
    Shape("estimate", STRONG, BLUE),
    Shape("limit", DASHES, RED),
)
LIMIT = Query(highest("leadline_accuracy_drop_limit_ratio", MODEL), "limit")
DROP = tuple(
    Query(bound("leadline_accuracy_drop_ratio", name, WINDOW), legend)
    for name, legend in (("low", "at least"), ("estimate", "estimate"), ("high", "at most"))
)

NOW = Row(
    100,
    "Now",
    (
        Stat(
            title="Asks for labels",
            about="Anything but 'no' pages: the inputs changed for certain, and in both windows accuracy is "
            "lost beyond the limit, or nobody can tell without labels. `leadline annotate export` writes the "
            "items to label.",
            unit="short",
            queries=(
                Query(
                    f"{highest('leadline_annotate', SLICE)}"
                    f" + {highest('leadline_annotate_reason', f'{SLICE},reason=`drop`')}",
                    "asks",
                ),
            ),
            words=((0, "no", GREEN), (1, "cannot tell", ORANGE), (2, "accuracy lost", RED)),
            empty="nothing decided",
        ),
        Stat(
            title="Change began",
            about="When the change that asks for labels began, by the records' own time.",
            unit="dateTimeFromNow",
            queries=(Query(f"1000 * min(leadline_episode_start_timestamp_seconds{{{SLICE}}})", "began"),),
            empty="no open change",
            width=4,
        ),
        Stat(
            title="Accuracy lost, estimated without labels",
            about="The truth probably lies between 'at least' and 'at most'. 'At least' above the limit: "
            "accuracy is very likely lost, act. Only the estimate above it: look, and have some items "
            "labelled. No number: nobody can say, which never means no drop.",
            unit="percentunit",
            decimals=1,
            queries=(*DROP, LIMIT),
            empty="no saying",
            width=8,
        ),
        Stat(
            title="Shift seen",
            about="Whether the inputs differ from the source for certain. That alone hurts nobody.",
            unit="short",
            queries=(Query(highest("leadline_shift_seen", SLICE), "seen"),),
            words=((0, "no", GREEN), (1, "yes", YELLOW)),
            empty="nothing decided",
            width=3,
        ),
        Stat(
            title="Labels",
            about="How many labels are asked for, and how many have come back.",
            unit="short",
            queries=(
                Query(highest("leadline_annotation_items_needed", SLICE), "needed"),
                Query(highest("leadline_annotation_labels", SLICE), "back"),
            ),
            empty="none asked",
            width=5,
        ),
    ),
)

HARM = Row(
    200,
    "Does it hurt?",
    (
        Series(
            title="Accuracy lost, estimated without labels",
            about="The line is the estimate, the band where the truth probably lies; below 0 is a gain. The "
            "whole band above the dashed limit, in the short and in the long window, with a shift seen: that "
            "pages. A gap: there is no saying, which never means no drop.",
            unit="percentunit",
            queries=(*DROP, LIMIT),
            shapes=INTERVAL,
            width=16,
            height=9,
            empty="no estimate",
        ),
        Timeline(
            title="Can the estimate be believed?",
            about="'estimated' NO: there is no number, most often for too few items; `leadline run` prints "
            "why. 'like a known domain' NO: the window is unlike every labelled domain, the number is a guess, "
            "and only labels would tell.",
            unit="short",
            queries=(
                Query(f"min(leadline_estimate_available{{{WINDOW}}})", "estimated"),
                Query(f"min(leadline_estimate_inside_domains{{{WINDOW}}})", "like a known domain"),
            ),
            words=((1, "yes", GREEN), (0, "NO", ORANGE)),
            width=8,
            height=9,
            empty="no estimate",
        ),
        Series(
            title="Accuracy lost, by labels and by estimate",
            about="Blue: what the labels of the newest annotation batch say, with its band. 'with "
            "predictions': labels and the model's predictions together, which is surer. 'estimated': what was "
            "said without labels when they were asked for. Blue wholly below the limit: the change does not "
            "hurt.",
            unit="percentunit",
            queries=(
                Query(bound("leadline_realised_drop_ratio", "low"), "at least"),
                Query(bound("leadline_realised_drop_ratio", "estimate"), "estimate"),
                Query(bound("leadline_realised_drop_ratio", "high"), "at most"),
                Query(bound("leadline_combined_drop_ratio", "estimate"), "with predictions"),
                Query(bound("leadline_accuracy_drop_ratio", "estimate", WINDOW), "estimated"),
                LIMIT,
            ),
            shapes=(
                *INTERVAL,
                Shape("with predictions", STRONG, GREEN),
                Shape("estimated", STRONG, YELLOW),
            ),
            empty="no labels yet",
        ),
        Series(
            title="Labels asked for and back",
            about="Labels asked for, and labels that came back for the newest annotation batch. The gap "
            "is what is left to label.",
            unit="short",
            low=0,
            queries=(
                Query(highest("leadline_annotation_items_needed", SLICE), "needed"),
                Query(highest("leadline_annotation_labels", SLICE), "back"),
                Query(
                    highest("leadline_estimate_error_ratio", SLICE),
                    "drop by labels less drop by estimate",
                    "percentunit",
                ),
            ),
            empty="none asked",
        ),
    ),
)

PER_MODEL = Dashboard(
    uid=MODEL_UID,
    title="Leadline: one model",
    about="One model, slice and window: accuracy lost, how the inputs changed, what the model answers, and how "
    "the agents are that watch it. Generated, see docs/GRAFANA.md.",
    since="now-24h",
    rows=(NOW, HARM, INPUTS, ANSWERS, AGENTS),
    variables=(
        Variable("model", "Model", "Models that agents watch.", "label_values(leadline_model_info, model)"),
        Variable(
            "slice",
            "Slice",
            "Slices of the model in the time shown.",
            # Those with records, and those of which something is decided.
            f'label_values({{__name__=~"leadline_window_items|leadline_annotate",{MODEL}}}, slice)',
        ),
        Variable(
            "window",
            "Window",
            "The short window moves first, the long one is surer. A page needs both.",
            values=("long", "short"),
            first="long",
        ),
        Variable(
            "detector",
            "Detector",
            "Whose p-values the heatmap shows.",
            f"label_values(leadline_item_p_value_count{{{MODEL}}}, detector)",
            first="knn",
        ),
    ),
    other=("All models", OVERVIEW_UID),
    marks=(
        Tagged("Episodes of this model", ("model:${model:raw}",)),
        Tagged("Episodes of all models", on=False),
        Marked(
            "Change began", f"1000 * {highest('leadline_episode_start_timestamp_seconds', SLICE, 'model, slice')}"
        ),
        Marked(
            "Labels asked for",
            f"1000 * {highest('leadline_annotation_batch_timestamp_seconds', SLICE, 'model, slice')}",
        ),
    ),
)

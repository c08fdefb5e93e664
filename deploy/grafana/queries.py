"""The PromQL that the panels share. Where several agents watch one model, the worst of them counts.

Of a chosen model or slice, label values stand in backquotes and are put in raw: a slice may hold quotes,
backslashes and line breaks, and PromQL reads all of them in a backquoted string.
"""

from __future__ import annotations

from deploy.grafana.dashboard import MODEL_UID

RATE = "[$__rate_interval]"
MODEL = "model=`${model:raw}`"
SLICE = f"{MODEL},slice=`${{slice:raw}}`"
WINDOW = f"{SLICE},window=`${{window:raw}}`"
# What has no label of the model: that of the agents that watch it.
ITS_AGENTS = f"and on (job, instance) leadline_model_info{{{MODEL}}}"


def worst(metric: str) -> str:
    """The highest of all agents, for each slice."""
    return f"max by (model, slice) ({metric})"


def asking(metric: str) -> str:
    """The highest of all agents, for each slice that asks for labels."""
    return f"{worst(metric)} and ({worst('leadline_annotate')} == 1)"


def drop(bound: str) -> str:
    """The long window's drop."""
    return f'leadline_accuracy_drop_ratio{{window="long",bound="{bound}"}}'


def highest(metric: str, labels: str, by: str = "") -> str:
    """The highest of all agents that watch the model."""
    return f"max{by and f' by ({by})'} ({metric}{{{labels}}})"


def bound(metric: str, name: str, labels: str = SLICE) -> str:
    """One bound of an interval."""
    return highest(metric, f"{labels},bound=`{name}`")


def quantile(part: float, histogram: str) -> str:
    """The value below which this part of the observations lay, over all agents that watch the model."""
    return f"histogram_quantile({part}, sum by (le) (rate({histogram}_bucket{RATE}) {ITS_AGENTS}))"


def link_to_model(labels: str) -> str:
    """The page of one model, at the model and slice that are clicked, with this Prometheus and time."""
    chosen = "&".join(f"var-{name}=${{{labels}.{name}:percentencode}}" for name in ("model", "slice"))
    return f"/d/{MODEL_UID}?${{datasource:queryparam}}&{chosen}&${{__url_time_range}}"


CELL_LINK = link_to_model("__data.fields")
SERIES_LINK = link_to_model("__field.labels")

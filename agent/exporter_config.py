"""What leaves the agent, and to whom: the `exporters` part of a run configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from agent.strict import Duration, Strict


class PrometheusConfig(Strict):
    """The HTTP port of the status page with its downloads, /metrics, /livez and /readyz. Port 0 takes any free."""

    host: str = "127.0.0.1"
    port: int = Field(9108, ge=0, le=65535)


# Secrets never go into a configuration, so no user or password into a URL.
Url = Annotated[str, Field(pattern=r"^https?://[^@\s]+$")]


def _not_ours(name: str) -> str:
    if name in {"alertname", "model", "slice"}:
        raise ValueError("alertname, model and slice are set by the agent: choose another name")
    return name


# Alertmanager takes no other names; the three say which alert it is.
AlertLabel = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"),
    AfterValidator(_not_ours),
]


class StatusConfig(Strict):
    """The status page, on the port of /metrics."""

    texts: bool = Field(
        default=False,
        description="Show kept texts on the page and in its downloads: whoever reaches the port reads them.",
    )


class GrafanaConfig(Strict):
    """Episodes as annotations in Grafana: a region from firing to resolved."""

    url: Url
    token_file: Path = Field(description="A service account's token, read again when it changes.")
    dashboard: str | None = Field(None, description="Only on the dashboard with this uid; all by default.")
    panel: int | None = Field(None, ge=0, description="Only on this panel of the dashboard.")
    tags: tuple[str, ...] = Field((), description="Further tags, of the characters A-Z a-z 0-9 _ . : = and -.")
    timeout: Duration = 10.0


class AlertmanagerConfig(Strict):
    """Episodes sent to Alertmanager directly, for those who have no Prometheus rules, and one agent a model.

    Several replicas would send the same labels, and the end of one's episode would resolve the other's alert.
    """

    urls: tuple[Url, ...] = Field(min_length=1, description="Every Alertmanager of the cluster, not a balancer.")
    token_file: Path | None = Field(None, description="A bearer token, read again when it changes.")
    labels: dict[AlertLabel, Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict, description="Further labels of every alert, or another `severity`."
    )
    runbook_url: Url | None = Field(None, description="Where whoever is woken reads what to do.")
    every: Duration = Field(60.0, ge=30, le=180, description="How often a firing alert is sent again.")
    timeout: Duration = 10.0


class ExportersConfig(Strict):
    """What leaves the agent."""

    prometheus: PrometheusConfig = PrometheusConfig()
    status: StatusConfig = StatusConfig()
    grafana: GrafanaConfig | None = None
    alertmanager: AlertmanagerConfig | None = None

"""Who is told of episodes, as the configuration has it: opened with the agent, and anew when it changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from agent.alert_report import Notified
from agent.errors import ServiceError
from exporters.episodes.address import Address
from exporters.episodes.alertmanager import Alertmanagers, AlertmanagerSink, version_of
from exporters.episodes.alerts import Wording
from exporters.episodes.secret import TokenFile
from exporters.episodes.worker import LAST_CALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent.exporter_config import AlertmanagerConfig, ExportersConfig, GrafanaConfig
    from agent.report import Report
    from exporters.episodes.grafana import GrafanaServer
    from exporters.episodes.receiver import Receiver

# How long a check waits for an answer (seconds).
PATIENCE = 5.0


class Receivers:
    """Tells each of them, in a thread of its own. UsageError if a token that is named cannot be read."""

    def __init__(self, config: ExportersConfig) -> None:
        self._config = config
        self._told = {name: made for name, make in RECEIVERS.items() if (made := make(config)) is not None}
        self._before: dict[str, Notified] = {}

    def __enter__(self) -> Self:
        for receiver in self._told.values():
            receiver.start()
        return self

    def __exit__(self, *_: object) -> None:
        for receiver in self._told.values():
            receiver.close(LAST_CALL)

    def tell(self, report: Report) -> None:
        """Have them told of what is new in it. Returns at once."""
        for receiver in self._told.values():
            receiver.tell(report)

    def notified(self) -> dict[str, Notified]:
        """How the telling of each goes, since the agent started."""
        return {
            name: _plus(self._before.get(name, Notified()), told.notified) for name, told in self._told.items()
        }

    def opened(self, config: ExportersConfig) -> dict[str, Receiver | None]:
        """Those whose part of this configuration is another one, to be taken up; nothing has changed yet."""
        return {
            name: make(config)
            for name, make in RECEIVERS.items()
            if getattr(config, name) != getattr(self._config, name)
        }

    def take_up(self, config: ExportersConfig, opened: Mapping[str, Receiver | None]) -> None:
        """Tell these from now on, from the beginning; what was said before they find, and say only once."""
        self._config = config
        for name, receiver in opened.items():
            if (old := self._told.pop(name, None)) is not None:
                old.close(0.0)  # what it had to say, the new one will
                self._before[name] = _plus(self._before.get(name, Notified()), replace(old.notified, waiting=0))
            if receiver is not None:
                receiver.start()
                self._told[name] = receiver


def _plus(before: Notified, now: Notified) -> Notified:
    return Notified(before.sent + now.sent, before.failed + now.failed, before.dropped + now.dropped, now.waiting)


def _grafana(config: ExportersConfig) -> Receiver | None:
    if config.grafana is None:
        return None
    from exporters.episodes.annotator import Annotator  # noqa: PLC0415 - its client costs 0.2 s and 10 MB

    return Annotator(_server(config.grafana), config.grafana.tags)


def _alertmanager(config: ExportersConfig) -> Receiver | None:
    return None if config.alertmanager is None else AlertmanagerSink(_whom(config.alertmanager))


# By their part of the configuration, which is their name on /metrics too.
RECEIVERS: dict[str, Callable[[ExportersConfig], Receiver | None]] = {
    "grafana": _grafana,
    "alertmanager": _alertmanager,
}


def reach_grafana(config: GrafanaConfig) -> str:
    """What a check finds of Grafana: that it can be asked with this token. LeadlineError for what is wrong."""
    from exporters.episodes.grafana import GrafanaAnnotations  # noqa: PLC0415 - as above

    short = config.model_copy(update={"timeout": min(config.timeout, PATIENCE)})
    annotations = GrafanaAnnotations(_server(short))
    try:
        annotations.found("leadline", most=1)
    finally:
        annotations.close()
    where = "all dashboards" if config.dashboard is None else f"the dashboard {config.dashboard}"
    return f"{config.url} takes the token; episodes go to {where}"


def reach_alertmanagers(config: AlertmanagerConfig) -> str:
    """What a check finds of the Alertmanagers: that each answers. LeadlineError for those that do not."""
    whom = _whom(config.model_copy(update={"timeout": min(config.timeout, PATIENCE)}))
    found, troubles = [], []
    for address in whom.addresses:
        try:
            found.append(f"{address.url}: version {version_of(whom.door(address))}")
        except ServiceError as error:
            troubles.append(str(error))
    if troubles:
        raise ServiceError("; ".join(troubles))
    return ", ".join(found)


def _server(config: GrafanaConfig) -> GrafanaServer:
    from exporters.episodes.grafana import GrafanaServer  # noqa: PLC0415 - as above

    return GrafanaServer(
        Address.of(config.url, "exporters.grafana.url"),
        TokenFile(config.token_file, "exporters.grafana.token_file"),
        config.dashboard,
        config.panel,
        config.timeout,
    )


def _whom(config: AlertmanagerConfig) -> Alertmanagers:
    token = config.token_file
    return Alertmanagers(
        addresses=[Address.of(url, "exporters.alertmanager.urls") for url in config.urls],
        token=None if token is None else TokenFile(token, "exporters.alertmanager.token_file"),
        wording=Wording(config.labels, config.runbook_url or ""),
        every=config.every,
        timeout=config.timeout,
    )

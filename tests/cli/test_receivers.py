"""Who is told of episodes, as the configuration has it: when the agent starts, when it changes, and in a check."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from agent.alert_report import Alerts, Episode, Kind, Notified, Outcome
from agent.cli.receivers import Receivers
from agent.errors import UsageError
from agent.exporter_config import ExportersConfig
from agent.interval import Interval
from agent.report import Counts, Histogram, ModelInfo, Report
from tests.cli.workbench import leadline
from tests.fake_grafana import TOKEN, FakeGrafana
from tests.moody_server import Answer, MoodyServer, eventually
from tests.prometheus_stack import Alertmanager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPEN = Episode(
    id="5e1f0a",
    slice="tenant-a",
    kind=Kind.DROP,
    since=1767222000.0,
    fired=time.time(),
    drop=Interval(0.082, 0.051, 0.11),
    items=12340,
    needed=400,
)


@pytest.fixture
def grafana() -> Iterator[FakeGrafana]:
    """A Grafana that is up, and empty."""
    with FakeGrafana() as grafana:
        yield grafana


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """Its token, in a file."""
    path = tmp_path / "token"
    path.write_text(TOKEN, encoding="ascii")
    return path


def exporters(**parts: Any) -> ExportersConfig:  # noqa: ANN401 - any JSON
    """That part of a run configuration."""
    return ExportersConfig.model_validate(parts)


def saying(*episodes: Episode) -> Report:
    """A report of these episodes."""
    nothing = Histogram.empty((1.0,))
    return Report(
        time=1.0,
        version="0",
        info=ModelInfo("sentiment", "r", "e", "p"),
        counts=Counts(),
        heartbeat=1.0,
        ready=True,
        windows=(),
        item_p_values={},
        encode_seconds=nothing,
        score_seconds=nothing,
        batch_records=nothing,
        alerts=Alerts(episodes=episodes),
    )


def settled(receivers: Receivers) -> None:
    """Wait until all have heard everything."""
    eventually(lambda: not any(each.waiting for each in receivers.notified().values()), "everybody told")


def test_nobody_is_told_where_nobody_is_named() -> None:
    """Without `grafana` and `alertmanager` there is neither a thread nor a series."""
    with Receivers(exporters()) as receivers:
        receivers.tell(saying(OPEN))
        assert receivers.notified() == {}


def test_both_are_told(grafana: FakeGrafana, token: Path) -> None:
    """Each receiver that is named hears of an episode, and is counted by its name."""
    with MoodyServer(lambda _: Answer()) as alertmanager:
        config = exporters(
            grafana={"url": grafana.url, "token_file": token}, alertmanager={"urls": [alertmanager.url]}
        )
        with Receivers(config) as receivers:
            receivers.tell(saying(OPEN))
            settled(receivers)
            assert receivers.notified() == {"grafana": Notified(sent=1), "alertmanager": Notified(sent=1)}
    assert (len(grafana.kept), len(alertmanager.asked)) == (1, 1)


def test_a_changed_receiver_goes_on_where_it_was(grafana: FakeGrafana, token: Path) -> None:
    """After a reload nothing is posted twice, counters never go back, and who is no longer named hears no more."""
    # Of now: Alertmanager hears of an end for five minutes only.
    over = replace(OPEN, resolved=time.time(), outcome=Outcome.RECOVERED)
    with MoodyServer(lambda _: Answer()) as alertmanager:
        first = exporters(
            grafana={"url": grafana.url, "token_file": token}, alertmanager={"urls": [alertmanager.url]}
        )
        second = exporters(grafana={"url": grafana.url, "token_file": token, "tags": ["nlp"]})
        with Receivers(first) as receivers:
            receivers.tell(saying(OPEN))
            settled(receivers)
            assert receivers.opened(first) == {}
            receivers.take_up(second, receivers.opened(second))
            assert receivers.notified() == {"grafana": Notified(sent=1)}
            receivers.tell(saying(over))
            settled(receivers)
            assert receivers.notified() == {"grafana": Notified(sent=2)}
            receivers.take_up(first, receivers.opened(first))
            receivers.tell(saying(over))
            settled(receivers)
            assert receivers.notified() == {"grafana": Notified(sent=2), "alertmanager": Notified(sent=2)}
    assert grafana.written == ["POST", "PATCH"]


def test_what_cannot_be_opened_changes_nothing(grafana: FakeGrafana, token: Path, tmp_path: Path) -> None:
    """If a new token cannot be read, nobody has been let go of yet."""
    config = exporters(grafana={"url": grafana.url, "token_file": token})
    with Receivers(config) as receivers:
        with pytest.raises(UsageError, match=r"exporters\.grafana\.token_file: .*/absent: cannot be read"):
            receivers.opened(exporters(grafana={"url": grafana.url, "token_file": tmp_path / "absent"}))
        receivers.tell(saying(OPEN))
        settled(receivers)
    assert len(grafana.kept) == 1


def checked(path: Path, **parts: Any) -> tuple[int, list[str]]:  # noqa: ANN401 - any JSON
    """How a check ends, and what it finds of the receivers."""
    content = {"reference": "absent", "source": {"file": {"path": "absent"}}, "exporters": parts}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    done = leadline("check", path)
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    return done.code, [line for line in lines if "exporters.prometheus" not in line][2:]


def test_a_check_of_grafana(grafana: FakeGrafana, token: Path, tmp_path: Path) -> None:
    """It asks with the token; what is wrong is one line that says what to do, and nothing is written."""
    config = tmp_path / "run.yaml"
    good = {"url": grafana.url, "token_file": str(token)}
    assert checked(config, grafana=good)[1] == [
        f"ok exporters.grafana: {grafana.url} takes the token; episodes go to all dashboards"
    ]
    assert checked(config, grafana=good | {"dashboard": "leadline-model"})[1] == [
        f"ok exporters.grafana: {grafana.url} takes the token; episodes go to the dashboard leadline-model"
    ]
    grafana.token = "glsa_other"  # noqa: S105 - of a server in this process
    refused = (
        f"Grafana at {grafana.url} answers 401: it refuses the token. "
        f"Write that of a service account into {token}; it is read again at the next try."
    )
    assert checked(config, grafana=good) == (
        1,
        [f"FAIL exporters.grafana: {refused}"],
    )
    grafana.stop()
    assert checked(config, grafana=good) == (
        1,
        [
            f"FAIL exporters.grafana: Grafana at {grafana.url} cannot be reached: [Errno 111] Connection refused",
        ],
    )
    token.unlink()
    assert checked(config, grafana=good)[1] == [
        f"FAIL exporters.grafana: exporters.grafana.token_file: {token}: cannot be read: No such file or directory"
    ]
    assert grafana.kept == {}


def test_a_check_of_alertmanagers(tmp_path: Path) -> None:
    """Each is asked for its version; those that do not answer are named."""
    config = tmp_path / "run.yaml"
    with Alertmanager(tmp_path / "alertmanager") as running, MoodyServer(lambda _: Answer()) as down:
        version = running.get("/api/v2/status")["versionInfo"]["version"]
        good = [f"ok exporters.alertmanager: {running.url}: version {version}"]
        assert checked(config, alertmanager={"urls": [running.url]})[1] == good
        down.stop()
        assert checked(config, alertmanager={"urls": [running.url, down.url]}) == (
            1,
            [
                f"FAIL exporters.alertmanager: Alertmanager at {down.url} cannot be reached: Connection refused",
            ],
        )
        assert running.alerts() == []

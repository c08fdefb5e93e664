"""SIGHUP: a changed configuration is taken up whole, or not at all."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.request
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from structlog.testing import capture_logs

from agent.cli.outlets import Served
from agent.cli.reload import LIVE, Reloads
from agent.config import RunConfig, load_config
from agent.errors import ServiceError
from agent.exporter_config import PrometheusConfig
from agent.report import Counts, Histogram, ModelInfo, Report, Upkeep
from tests.cli.workbench import finished, records, start, stream

if TYPE_CHECKING:
    from tests.cli.workbench import Bench

RUN: dict[str, Any] = {
    "reference": "r",
    "source": {"kafka": {"servers": ["a:1"], "topics": ["t"]}},
    "windows": {"min_items": 100},
    "estimate": {"every": "1m"},
    "exporters": {"prometheus": {"port": 9108}},
}


def test_the_documentation_names_all_that_can_change() -> None:
    """What is taken up while the agent runs is named where SIGHUP is told of."""
    guide = (Path(__file__).parents[2] / "docs" / "SOURCES.md").read_text(encoding="utf-8")
    told = guide.split("## Changing the configuration while it runs")[1]
    assert not [key for key in LIVE if f"`{key.rstrip('.')}`" not in told]


class Desk:
    """A configuration file, and what was taken up of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(RUN)
        self.applied: list[RunConfig] = []
        self.now = 1.0
        self.asked = Event()
        self.reloads = Reloads(path, load_config(path, RunConfig), self.apply, self.asked, lambda: self.now)

    def write(self, content: dict[str, Any]) -> None:
        """Put another configuration into the file."""
        self.path.write_text(yaml.safe_dump(content), encoding="utf-8")

    def apply(self, config: RunConfig) -> None:
        """Take it up."""
        self.applied.append(config)

    def told(self) -> tuple[bool, float]:
        """What /metrics would say."""
        upkeep = self.reloads.tell(Upkeep())
        return upkeep.reload_ok, upkeep.reloaded


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A file that was loaded at second 1."""
    return Desk(tmp_path / "run.yaml")


def test_nothing_is_read_unless_asked(desk: Desk) -> None:
    """Without a SIGHUP the file may change as it likes."""
    desk.write({})
    desk.reloads.poll()
    assert (desk.applied, desk.told()) == ([], (True, 1.0))


def test_what_can_change_is_taken_up(desk: Desk) -> None:
    """Thresholds, intervals and exporters change; the time and the changed keys are told."""
    desk.write(
        RUN | {"windows": {"min_items": 7}, "estimate": {"every": "5s"}, "exporters": {"prometheus": {"port": 0}}}
    )
    desk.asked.set()
    desk.now = 2.0
    with capture_logs() as lines:
        desk.reloads.poll()
        desk.reloads.poll()
    assert [(each.windows.min_items, each.estimate.every) for each in desk.applied] == [(7, 5.0)]
    assert lines[0]["changed"] == ["estimate.every", "exporters.prometheus.port", "windows.min_items"]
    assert desk.told() == (True, 2.0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"windows": {"min_items": 7, "pane": "5m"}}, "a change of windows.pane needs a restart of the agent"),
        (
            {"windows": {"min_items": 0}},
            "windows.min_items: Input should be greater than or equal to 1 (found: 0)",
        ),
        ({"nonsense": 1}, "nonsense: unknown key. Remove it, or check its spelling."),
        ({"reference": "other"}, "a change of reference needs a restart of the agent"),
        (
            {"source": {"kafka": {"servers": ["a:1"], "topics": ["u"]}}},
            "a change of source.kafka.topics needs a restart of the agent",
        ),
    ],
)
def test_what_cannot_be_used_changes_nothing(desk: Desk, change: dict[str, Any], problem: str) -> None:
    """A file that is wrong, or wants what needs a restart, leaves every old value in force, and says why."""
    desk.write(RUN | change)
    desk.asked.set()
    desk.now = 2.0
    with capture_logs() as lines:
        desk.reloads.poll()
    assert (desk.applied, desk.told()) == ([], (False, 1.0))
    assert lines[0]["problem"] == f"{desk.path}: {problem}"


def test_a_good_file_mends_a_bad_one(desk: Desk) -> None:
    """After a failed reload the next good one counts."""
    for content in ({}, RUN | {"windows": {"min_items": 7}}):
        desk.write(content)
        desk.asked.set()
        desk.reloads.poll()
    assert (len(desk.applied), desk.told()[0]) == (1, True)


def test_what_cannot_be_applied_is_not_in_force(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the new port is taken, the old configuration stays, and the next attempt starts from it."""

    def refuse(config: RunConfig) -> None:
        raise ServiceError(f"port {config.exporters.prometheus.port} is taken")

    monkeypatch.setattr(desk.reloads, "_apply", refuse)
    desk.write(RUN | {"exporters": {"prometheus": {"port": 1}}})
    for _ in range(2):
        desk.asked.set()
        desk.reloads.poll()
        assert desk.told() == (False, 1.0)


def scraped(url: str) -> dict[str, float]:
    """The series without labels on a metrics page."""
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own server
        lines = response.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.partition(" ") for line in lines)
        if name != "#" and "{" not in name
    }


def test_a_running_agent_takes_a_new_configuration_up(bench: Bench, tmp_path: Path) -> None:
    """SIGHUP moves the metrics to another port; a file that cannot be used leaves them there, and they say so."""
    lines = stream(tmp_path / "events.jsonl", records(bench.texts["tweets"][600:620]))
    path = tmp_path / "run.yaml"
    source = {"source__file__loop": True, "source__file__rate": 20}
    bench.run_config(path, lines, **source)
    process = start("run", path)
    assert process.stderr is not None

    def told() -> dict[str, Any]:
        assert process.stderr is not None
        line: dict[str, Any] = json.loads(process.stderr.readline())
        return line

    try:
        before = told()["metrics"]
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        bench.run_config(path, lines, **source, exporters__prometheus__port=port, windows__min_items=5)
        process.send_signal(signal.SIGHUP)
        assert told()["changed"] == ["exporters.prometheus.port", "windows.min_items"]
        after = f"http://127.0.0.1:{port}/metrics"
        with pytest.raises(OSError, match="refused"):
            scraped(before)
        assert scraped(after)["leadline_config_last_reload_successful"] == 1
        bench.run_config(path, lines, **source, windows__min_items=0)
        process.send_signal(signal.SIGHUP)
        assert told()["event"] == "reload_failed"
        deadline = time.monotonic() + 20
        while scraped(after)["leadline_config_last_reload_successful"] and time.monotonic() < deadline:
            time.sleep(0.05)
        found = scraped(after)
        assert found["leadline_config_last_reload_successful"] == 0
        assert found["leadline_config_last_reload_success_timestamp_seconds"] > 0
        process.terminate()
        done = finished(process)
    finally:
        process.kill()
    assert done.code == 0, done.err


def test_the_pages_move_to_another_address_of_their_port() -> None:
    """With the port the same, the old address is let go first; if the new one cannot be had, the pages stay."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    report = Report(
        time=1.0,
        version="0",
        info=ModelInfo("m", "r", "e", "p"),
        counts=Counts(),
        heartbeat=time.time(),
        ready=True,
        windows=(),
        item_p_values={},
        encode_seconds=Histogram.empty((1.0,)),
        score_seconds=Histogram.empty((1.0,)),
        batch_records=Histogram.empty((1.0,)),
    )
    with Served(lambda: report, PrometheusConfig(port=port)) as served:
        served.move(PrometheusConfig(host="127.0.0.2", port=port))
        assert scraped(f"{served.url}/metrics")["leadline_ready"] == 1
        with pytest.raises(ServiceError):
            served.move(PrometheusConfig(host="192.0.2.1", port=port))
        assert served.url == f"http://127.0.0.2:{port}"
        assert scraped(f"{served.url}/metrics")["leadline_ready"] == 1
        served.move(PrometheusConfig(port=0))
        assert scraped(f"{served.url}/metrics")["leadline_ready"] == 1

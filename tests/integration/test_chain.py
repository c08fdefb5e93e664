"""The real chain: agent, Prometheus with the rules that are shipped, Alertmanager, and whoever is paged."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.children import free_ports
from tests.cli.workbench import write_config
from tests.prometheus_stack import Alertmanager, Prometheus, Webhook
from tests.reliability.agents import Agent, wait_until
from tests.reliability.posting import post, wait_for_intake
from tests.reliability.small_model import VOCABULARY, Small, made, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.prometheus_stack import Told

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "leadline.rules.yml"
PANE = 60
ITEMS = 150
PAGE = "LeadlineAnnotate"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A reference with two labelled domains."""
    return made(tmp_path_factory.mktemp("small"))


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    """Whoever is paged."""
    with Webhook() as hook:
        yield hook


@dataclass
class Traffic:
    """Panes of records posted to an agent, each followed by its estimates."""

    intake: int
    agent: Agent
    chance: Random = field(default_factory=lambda: Random(11))  # noqa: S311 - texts, not secrets
    panes: int = 0
    # So long ago that no record is from the future, and so lately that no window is stale.
    start: int = field(default_factory=lambda: int(time.time() // PANE - 45) * PANE)

    def usual(self) -> str:
        """A text like those of the training domain."""
        return text(self.chance)

    def foreign(self) -> str:
        """A text of which every other word is new: no labelled domain is like that."""
        known = self.chance.choice
        return " ".join(known(VOCABULARY) if self.chance.random() < 0.5 else "qqq" for _ in range(8))

    def pane(self, make: Callable[[], str]) -> None:
        """Post one pane, and wait until the windows that it ends were estimated."""
        begin = self.start + self.panes * PANE
        records = [
            {"id": f"{self.panes}-{number}", "time": begin + number * PANE / ITEMS, "text": make()}
            for number in range(ITEMS)
        ]
        posted = time.time()
        assert post(self.intake, json.dumps(records).encode(), {"Content-Type": "application/json"}) == 200
        self.panes += 1
        if self.panes > 1:
            wait_until(lambda: self._estimated(posted), 30, f"pane {self.panes} is estimated")

    def _estimated(self, since: float) -> bool:
        self.agent.check_running()
        return self.agent.metrics.total("leadline_last_estimate_timestamp_seconds") > since

    def until(self, make: Callable[[], str], reached: Callable[[], bool], most: int) -> None:
        """Panes until this holds; AssertionError after so many."""
        for _ in range(most):
            self.pane(make)
            if reached():
                return
        raise AssertionError(f"not within {most} panes")

    def asking(self) -> bool:
        """Whether the agent asks for labels."""
        return self.agent.metrics.total("leadline_annotate") == 1


def faster(directory: Path) -> Path:
    """The rules that are shipped, in which nothing but the waiting is changed: a minute is a second."""

    def seconds(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) * {'m': 1, 'h': 60}[match[3]]}s"

    shipped = RULES.read_text(encoding="utf-8")
    changed, times = re.subn(r"^( +(?:for|keep_firing_for): )(\d+)([mh])$", seconds, shipped, flags=re.MULTILINE)
    assert times > 20
    rules = directory / "leadline.rules.yml"
    rules.write_text(changed, encoding="utf-8")
    return rules


def config_of(small: Small, directory: Path, intake: int, metrics: int) -> Path:
    """An agent that decides on three minutes of event time."""
    content = {
        "reference": str(small.reference),
        "source": {"http": {"port": intake}},
        "windows": {"pane": f"{PANE}s", "short": "2m", "long": "3m", "min_items": 50, "lateness": "1s"},
        "estimate": {"every": "1s"},
        "state": {"path": str(directory / "state.sqlite"), "every": "0.2s"},
        "annotation": {"path": str(directory / "annotation")},
        "encoding": {"threads": 1, "device": "cpu"},
        "exporters": {"prometheus": {"port": metrics}},
    }
    return write_config(directory / "run.yaml", content, {})


def pages(received: list[Told]) -> Counter[str]:
    """How often each status of the page was told."""
    return Counter(each.status for each in received if each.name == PAGE)


def test_one_drift_is_one_page_and_one_resolve(small: Small, tmp_path: Path, webhook: Webhook) -> None:
    """Drift begins: one page. The agent is killed and comes back: nothing. Drift ends: one resolve. No more."""
    intake, metrics = free_ports(2)
    config = config_of(small, tmp_path, intake, metrics)
    alertmanager = Alertmanager(tmp_path / "alertmanager", webhook.url)
    prometheus = Prometheus(
        tmp_path / "prometheus", [f"127.0.0.1:{metrics}"], [faster(tmp_path)], [alertmanager.address]
    )
    agent = Agent.start(config)
    try:
        with alertmanager, prometheus:
            wait_for_intake(intake)
            traffic = Traffic(intake, agent)
            for _ in range(4):
                traffic.pane(traffic.usual)
            assert not traffic.asking()
            assert not pages(webhook.received)

            traffic.until(traffic.foreign, traffic.asking, most=6)
            told = webhook.wait_for(lambda all_of: bool(pages(all_of)), 20, "the page arrives")
            page = next(each for each in told if each.name == PAGE)
            assert page.labels == {
                "alertname": PAGE,
                "model": "sentiment",
                "slice": "default",
                "severity": "page",
            }
            assert "nobody can tell" in page.annotations["summary"]
            assert page.annotations["runbook_url"].endswith("#leadlineannotate")

            time.sleep(0.5)  # a checkpoint or two
            agent.metrics.check()
            agent.kill()
            agent = traffic.agent = Agent.start(config)
            wait_for_intake(intake)
            assert traffic.asking()
            traffic.pane(traffic.foreign)
            assert traffic.asking()

            traffic.until(traffic.usual, lambda: not traffic.asking(), most=8)
            webhook.wait_for(lambda all_of: pages(all_of)["resolved"] > 0, 40, "the resolve arrives")
            time.sleep(5)  # what would be sent twice would be sent by now
    finally:
        agent.kill()
    agent.metrics.check()
    assert pages(webhook.received) == {"firing": 1, "resolved": 1}
    assert [each.labels for each in webhook.received if each.labels["severity"] == "page"] == [page.labels] * 2
    assert len(list((tmp_path / "annotation").iterdir())) == 1

"""What the reliability suite shares: the small reference, a stage for each test, and the report at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.reliability.oracle import Oracle
from tests.reliability.scale import FINDINGS, MINUTES, SEED
from tests.reliability.small_model import made
from tests.reliability.stage import Stage

if TYPE_CHECKING:
    from tests.kafka_broker import Broker


HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Says what any records amount to, by a small reference fitted for this run."""
    return Oracle(made(tmp_path_factory.mktemp("small")))


@pytest.fixture
def stage(tmp_path: Path, oracle: Oracle, kafka: Broker) -> Stage:
    """A new topic of three partitions on the shared broker."""
    return Stage.with_topic(tmp_path, oracle, kafka)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The report: what was done, how often, what was found."""
    if FINDINGS.lines:
        length = f"{MINUTES:g} minutes" if MINUTES else "the short version"
        terminalreporter.section(f"reliability: {length}, LEADLINE_SEED={SEED}")
        for line in FINDINGS.lines:
            terminalreporter.write_line(line)

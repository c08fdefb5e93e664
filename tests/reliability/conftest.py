"""What the reliability suite shares: the small reference, a stage for each test, and the report at the end."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.reliability.oracle import Oracle
from tests.reliability.scale import FINDINGS, MINUTES, SEED
from tests.reliability.small_model import made
from tests.reliability.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests' own Kafka clients leave sockets to the garbage collector when a broker goes away or is not there.

    The agent is another process; that it leaks none is what the soak looks at.
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True, scope="module")
def swept() -> Iterator[None]:
    """Leave no such socket to the tests of other modules."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The report: what was done, how often, what was found."""
    if FINDINGS.lines:
        length = f"{MINUTES:g} minutes" if MINUTES else "the short version"
        terminalreporter.section(f"reliability: {length}, LEADLINE_SEED={SEED}")
        for line in FINDINGS.lines:
            terminalreporter.write_line(line)

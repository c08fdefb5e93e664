"""A disk that is full, and one that may not be written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reliability.agents import Agent, running, wait_until
from tests.reliability.disks import read_only, small_disk
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.scrapes import PROCESSED
from tests.reliability.traffic import Traffic, committed, flowing, hours_ago

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reliability.disks import SmallDisk
    from tests.reliability.stage import Stage

FAILURES = "leadline_checkpoint_failures_total"
RATE = 100.0


def test_a_full_disk_stops_checkpoints_and_nothing_else(stage: Stage, tmp_path: Path) -> None:
    """Scoring goes on, failures are counted, the group's offsets stand still; with space again all is saved."""
    traffic = Traffic(chance("disk"), hours_ago(), step=0.5)
    with small_disk(tmp_path / "disk") as disk:
        config = stage.config(state__path=disk.root / "state.sqlite")
        with flowing(stage.broker, stage.topic, traffic, RATE), running(config) as agent:
            for _ in range(times(1, 0.2)):
                _fill_up(stage, agent, disk)
            failures = agent.metrics.total(FAILURES)
        log = stage.read_out(config)
        stage.check_panes(log.records)
    FINDINGS.say(
        f"disk: {disk.kind}: {failures:.0f} checkpoints failed, {len(log.records)} records exact afterwards"
    )


def _fill_up(stage: Stage, agent: Agent, disk: SmallDisk) -> None:
    wait_until(lambda: committed(stage.broker, stage.topic), 30, "something is committed")
    before = agent.metrics.total(FAILURES)
    with disk.full(agent.process.pid):
        wait_until(lambda: agent.metrics.total(FAILURES) >= before + 2, 30, "checkpoints fail")
        noted, processed = committed(stage.broker, stage.topic), agent.metrics.total(PROCESSED)
        wait_until(lambda: agent.metrics.total(PROCESSED) > processed + 100, 30, "scoring goes on")
        failed = agent.metrics.total(FAILURES)
        wait_until(lambda: agent.metrics.total(FAILURES) > failed, 30, "checkpoints still fail")
        assert committed(stage.broker, stage.topic) == noted, "offsets went on without the state"
        assert agent.metrics.page("/livez")[0] == 200
    wait_until(lambda: committed(stage.broker, stage.topic) != noted, 30, "the state is saved again")


def test_a_state_that_cannot_be_written_is_said_at_the_start(stage: Stage, tmp_path: Path) -> None:
    """On a read-only disk the agent does not start: exit code 2, and one line that names `state.path`."""
    with read_only(tmp_path / "frozen") as directory:
        agent = Agent.start(stage.config(state__path=directory / "state.sqlite"), wait=False)
        assert agent.ended() == 2, agent.tail()
    assert "state.path" in agent.complaint
    assert str(directory) in agent.complaint
    assert "Traceback" not in agent.complaint
    assert len(agent.complaint.splitlines()) == 1

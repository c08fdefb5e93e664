"""Told to stop under load, the agent ends well and soon, and nothing is lost or counted twice by it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.config import RunConfig, load_config
from tests.cli.workbench import write_config
from tests.reliability.agents import running
from tests.reliability.oracle import differences
from tests.reliability.posting import Senders, free_port, wait_for_intake
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.stage import settings
from tests.reliability.traffic import Traffic, flowing, hours_ago

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reliability.oracle import Oracle
    from tests.reliability.posting import Sent
    from tests.reliability.stage import Stage

RATE = 400.0
GRACE = 10.0
SENDERS = 4


def test_sigterm_while_reading_from_kafka(stage: Stage) -> None:
    """It exits with 0 within 10 seconds each time; the next start goes on, and every record counts once."""
    config = stage.config()
    traffic, moments = Traffic(chance("sigterm"), hours_ago()), chance("sigterm moments")
    took = []
    with flowing(stage.broker, stage.topic, traffic, RATE):
        for _ in range(times(3, 0.5)):
            with running(config) as agent:
                agent.wait_for(1)
                time.sleep(moments.uniform(0, 1))
                took.append(agent.stop(GRACE))
            assert agent.said("stopped")[0]["in_flight"] == 0
    log = stage.read_out(config)
    stage.check_panes(log.records)
    FINDINGS.say(
        f"SIGTERM with Kafka: {len(took)} times under load, at most {max(took):.1f} s; "
        f"{len(log.records)} records exact"
    )


def test_sigterm_while_senders_post(tmp_path: Path, oracle: Oracle) -> None:
    """Whatever was answered 200 before or while the agent stopped is in the state, and nothing else is."""
    port = free_port()
    source = {"http": {"port": port, "queue_bytes": 64 << 20}}
    config = write_config(tmp_path / "run.yaml", settings(oracle, tmp_path, "run", source), {})
    traffic, took = Traffic(chance("posted"), hours_ago()), []
    senders = Senders(port, traffic, SENDERS)
    try:
        for _ in range(times(2, 0.3)):
            with running(config) as agent:
                wait_for_intake(port)
                agent.wait_for(200)
                took.append(agent.stop(GRACE))
    finally:
        senders.close()
    sent = senders.sent
    _check(oracle, config, sent)
    FINDINGS.say(
        f"SIGTERM with HTTP: {len(took)} times under load, at most {max(took):.1f} s; {len(sent.taken)} answered "
        f"200, all counted; {len(sent.refused)} refused, none counted; {len(sent.unknown)} without an answer"
    )


def _check(oracle: Oracle, config: Path, sent: Sent) -> None:
    loaded = load_config(config, RunConfig)
    panes = oracle.kept(loaded).windows.panes
    counted = {name for pane in panes.values() for name in pane.sample.ids.tolist()}
    taken = {record.id for record in sent.taken}
    assert taken <= counted, f"accepted and lost: {sorted(taken - counted)[:5]}"
    assert counted - taken <= {record.id for record in sent.unknown}, "counted, though the sender was refused"
    expected = [record for record in [*sent.taken, *sent.unknown] if record.id in counted]
    wrong = differences(panes, oracle.panes(expected, loaded.windows))
    assert not wrong, wrong[:10]


def test_a_second_sigterm_changes_nothing(stage: Stage) -> None:
    """Told twice, it still makes its last checkpoint and ends with 0."""
    traffic = Traffic(chance("twice"), hours_ago())
    with flowing(stage.broker, stage.topic, traffic, RATE), running(stage.config()) as agent:
        agent.wait_for(1)
        agent.process.terminate()
        assert agent.stop(GRACE) < GRACE
    assert stage.panes()

"""Scoring that takes longer than the group's patience: reading pauses, and the membership lasts."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING

from agent.assembly import assemble, intake_of
from agent.loop import Listeners
from agent.memory import Memory
from agent.sources.kafka.source import KafkaSource
from agent.sources.kafka.timing import Timing
from tests.reliability.agents import wait_until
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.traffic import Log, Traffic, hours_ago, produce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.records import Record
    from agent.report import Report
    from agent.scorer import Scored
    from tests.reliability.stage import Stage

# One batch takes longer than the session, and than the time between two polls that the group allows.
SILENCE, SLOW = 7.0, 9.0
NUMBER = 600


def test_scoring_slower_than_the_group_allows_is_not_evicted(stage: Stage) -> None:
    """No partition is lost or revoked, reading pauses at the bound of its queue, and every record counts once."""
    stage.config(source__kafka__queue_bytes=1 << 16, encoding__batch=64)
    config = stage.loaded()
    traffic = Traffic(chance("slow"), hours_ago())
    produce(stage.broker, stage.topic, traffic.messages(NUMBER), traffic.chance)
    stop, batches = Event(), times(1, 0.1)
    reports: list[Report] = []
    agent = assemble(config, stop)
    assert config.source.kafka is not None
    slowly = 0

    def score(records: Sequence[Record]) -> Scored:
        nonlocal slowly
        if slowly < batches:
            slowly += 1
            time.sleep(SLOW)
        return agent.score(records)

    memory = Memory(agent.state.slices, agent.state.pairing, agent.state.seen)
    source = KafkaSource(
        config.source.kafka,
        intake_of(config, agent.reference, memory),
        config.encoding.batch,
        agent.checkpoints.id,
        Timing(silence=SILENCE),
    )
    slow = replace(agent, score=score, source=source)
    loop = Thread(target=slow.run, args=(Listeners(reports.append, lambda _: None), stop), name="loop")
    loop.start()
    try:
        wait_until(lambda: stage.settled() or not loop.is_alive(), 60 + SLOW * batches, "everything is committed")
    finally:
        stop.set()
        loop.join()
        agent.source.close()
        agent.checkpoints.close()
    events = reports[-1].source.events
    assert (events["lost"], events["revoked"], events["assigned"]) == (0, 0, 3), events
    assert any(report.source.paused for report in reports), "the queue was never full"
    assert all(report.counts.balanced for report in reports)
    stage.check_panes(Log.of(stage.broker, stage.topic).records)
    FINDINGS.say(
        f"slow scorer: {slowly} batches of {SLOW:g} s with {SILENCE:g} s allowed: nothing lost or revoked"
    )

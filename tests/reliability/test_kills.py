"""Killed at any moment under load from three partitions, it counts every record once."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.reliability.agents import Agent, running
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.stage import Stage, letters
from tests.reliability.traffic import Log, Traffic, ends_of, flowing, hours_ago

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.kafka_broker import Broker
    from tests.reliability.oracle import Oracle

KILLS = 20
PARTITIONS = 3
RATE = 400.0
# Counted from when it says that it has started, so that a slow machine gets as far as a fast one; and now and then
# from the start of its process.
READING, STARTING = 2.0, 1.5


def test_killed_at_random_it_counts_every_record_once(tmp_path: Path, oracle: Oracle, kafka: Broker) -> None:
    """After 20 SIGKILLs panes, samples and positions are those of one pass; every scrape balanced."""
    for round_number in range(times(1, 0.08)):
        _one_round(Stage.with_topic(tmp_path / str(round_number), oracle, kafka), round_number)


def _one_round(stage: Stage, number: int) -> None:
    moments, traffic = chance(f"kills {number}"), Traffic(chance(f"traffic {number}"), hours_ago())
    # With a name of its own the group knows it again at once, and need not wait for the dead one's session to end.
    config = stage.config(source__kafka__member="a")
    # Left alone, another reads it all at once, one partition far ahead of the others: then no record may be late.
    whole = stage.config("whole", source__kafka__group=f"{stage.topic}-whole", windows__lateness="6h")
    groups = {config: stage.topic, whole: f"{stage.topic}-whole"}
    scrapes = 0
    with flowing(stage.broker, stage.topic, traffic, RATE):
        for kill in range(KILLS):
            scrapes += _killed(config, moments, early=kill % 5 == 0)
        reached = stage.oracle.kept(stage.loaded()).positions
    assert len(reached) == PARTITIONS, "the kills did not fall into the stream"
    assert sum(reached.values()) > 0, "the kills did not fall into the stream"
    log = Log.of(stage.broker, stage.topic)
    for each in (config, whole):
        with running(each) as agent:
            stage.wait_until_settled(group=groups[each])
            agent.stop()
        scrapes += agent.metrics.count
    _check(stage, log)
    FINDINGS.say(
        f"kills: {KILLS} SIGKILLs over {len(log)} messages ({len(log.records)} records, {log.twice} second "
        f"deliveries, {len(log.poison)} poison): panes, samples, positions as in one pass; {scrapes} scrapes "
        "balanced"
    )


def _killed(config: Path, moments: random.Random, *, early: bool) -> int:
    """Start an agent and kill it at a random moment; how often it was scraped."""
    agent = Agent.start(config, wait=not early)
    try:
        time.sleep(moments.uniform(0, STARTING if early else READING))
        agent.check_running()
    finally:
        agent.kill()
    if agent.scraper is None:
        return 0
    agent.scraper.check()
    return agent.scraper.count


def _check(stage: Stage, log: Log) -> None:
    """The state is that of an agent that was left alone, and both are what the oracle says."""
    for name in ("run", "whole"):
        stage.check_panes(log.records, name)
    positions = stage.oracle.kept(stage.loaded()).positions
    assert positions == stage.oracle.kept(stage.loaded("whole")).positions
    ends = {int(name.rpartition(":")[2]): offset for name, offset in positions.items()}
    assert ends == ends_of(stage.broker, stage.topic)
    kept = letters([stage.root / "run.dead.jsonl"])
    assert {letter.origin: letter.reason for letter in kept} == log.poison, "poison that is not kept, or more"
    # A crash may repeat what the last checkpoint had not passed, no more.
    assert max(Counter(letter.origin for letter in kept).values()) <= KILLS + 1

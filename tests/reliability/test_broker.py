"""The broker stands still, dies, or loses the topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.reliability.agents import Agent, running, wait_until
from tests.reliability.oracle import items
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.scrapes import PROCESSED
from tests.reliability.stage import Stage
from tests.reliability.traffic import Log, Traffic, flowing, hours_ago, produce

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_broker import Broker
    from tests.reliability.oracle import Oracle

SESSION = 6.0
RATE = 150.0
EVENTS, STOPPED = "leadline_source_events_total", "leadline_source_stopped"
NUMBER = 200


def test_a_broker_that_stands_still_and_dies_costs_nothing(
    tmp_path: Path, oracle: Oracle, own_kafka: Broker
) -> None:
    """Paused past the session's end, then killed and started again: the agent lives and counts records once."""
    stage = Stage.with_topic(tmp_path / "stage", oracle, own_kafka)
    traffic = Traffic(chance("broker"), hours_ago())
    rounds = times(1, 0.15)
    with running(stage.config()) as agent:
        with flowing(own_kafka, stage.topic, traffic, RATE):
            agent.wait_for(NUMBER)
            for _ in range(rounds):
                own_kafka.pause()
                time.sleep(SESSION + 2)
                own_kafka.resume()
                _wait_for_more(agent)
                own_kafka.kill()
                time.sleep(1)
                own_kafka.start()
                _wait_for_more(agent)
        assert agent.metrics.page("/livez")[0] == 200
        stage.wait_until_settled(90)
        events = agent.metrics.now().by(EVENTS, "event")
        agent.stop()
    log = Log.of(own_kafka, stage.topic)
    stage.check_panes(log.records)
    FINDINGS.say(
        f"broker: {rounds} x standing still for {SESSION + 2:g} s and {rounds} x killed: {len(log.records)} "
        f"records exact; {_shown(events)}"
    )


def _wait_for_more(agent: Agent) -> None:
    agent.wait_for(int(agent.metrics.total(PROCESSED)) + NUMBER)


def _shown(events: dict[str, float]) -> str:
    return ", ".join(f"{name} {count:.0f}" for name, count in sorted(events.items()))


def test_a_topic_made_anew_follows_the_policy(stage: Stage) -> None:
    """Deleted and created again: read from its beginning or not at all, and said."""
    broker, topic = stage.broker, stage.topic
    traffic = Traffic(chance("recreated"), hours_ago(), twice=0.0)
    reading = stage.config("reading")
    waiting = stage.config("waiting", source__kafka__group=f"{topic}-waiting", source__kafka__out_of_range="stop")
    produce(broker, topic, traffic.messages(NUMBER), traffic.chance)
    first = Log.of(broker, topic)
    with running(reading) as goes_on, running(waiting) as stops:
        for agent in (goes_on, stops):
            agent.wait_for(NUMBER)
        time.sleep(1)  # for a checkpoint
        broker.delete_topic(topic)
        broker.create_topic(topic, 3)
        produce(broker, topic, traffic.messages(NUMBER), traffic.chance)
        goes_on.wait_for(2 * NUMBER)
        wait_until(lambda: stops.metrics.total(STOPPED, reason="out_of_range") == 1, 90, "reading stops")
        told = goes_on.metrics.now().by(EVENTS, "event")
        assert told.get("topic_recreated", 0) + told.get("out_of_range", 0) >= 1, told
        assert stops.metrics.total(PROCESSED) == NUMBER
        goes_on.stop()
        stops.stop()
    assert goes_on.said("kafka_partition_moved")
    stage.check_panes([*first.records, *Log.of(broker, topic).records], "reading")
    assert items(stage.panes("waiting")) == NUMBER
    with running(waiting) as again:
        wait_until(lambda: again.metrics.total(STOPPED, reason="out_of_range") == 1, 60, "it still waits")
        assert again.metrics.total(PROCESSED) == 0
        again.stop()
    FINDINGS.say(f"topic made anew: earliest counted all of it, stop read none of it; {_shown(told)}")

"""Replicas that come and go while records flow: over the union of their states every record counts once."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.reliability.agents import Agent, running, wait_until
from tests.reliability.oracle import differences, items, sealed_until, thinned_until, union
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.stage import Stage, letters
from tests.reliability.traffic import Log, Traffic, flowing, hours_ago, members

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent.panes import Pane
    from tests.kafka_broker import Broker
    from tests.reliability.oracle import Key, Oracle

RATE = 200.0
# `a` is killed and comes back; `b` and `c` leave if they are there and join if they are not.
SHAKES = ("a", "a", "b", "b", "b", "c", "c", "c")
# Longer than a start may take: whoever is killed comes back to the partitions that are still its own.
SESSION = "15s"
NAMED = "a"
# Of the test in which somebody never returns: seconds between two checkpoints, records to wait for.
EVERY, NUMBER = 1.0, 200


def test_replicas_that_come_and_go_count_every_record_once(tmp_path: Path, oracle: Oracle, kafka: Broker) -> None:
    """Two and three replicas join, leave, and are killed and come back: their panes together are exact."""
    for number in range(times(1, 0.1)):
        _storm(Stage.with_topic(tmp_path / str(number), oracle, kafka), number)


def test_a_replica_that_never_comes_back_costs_one_checkpoint_at_most(stage: Stage) -> None:
    """Killed for good, it loses no record; what it had saved and not yet committed may count twice, no more."""
    traffic = Traffic(chance("for good"), hours_ago(), twice=0.0)
    configs = [stage.config(name, state__every=f"{EVERY:g}s") for name in ("a", "b")]
    with running(configs[0]) as stays:
        with flowing(stage.broker, stage.topic, traffic, RATE), running(configs[1]) as goes:
            goes.wait_for(NUMBER)
            goes.kill()
        stage.wait_until_settled(90)
        stays.stop()
    log = Log.of(stage.broker, stage.topic)
    found = union([stage.panes("a"), stage.panes("b")])
    expected = stage.oracle.panes(log.records, stage.loaded("a").windows, sealed=False)
    missing = [key for key in expected if key not in found or found[key].tally.items < expected[key].tally.items]
    assert not missing, f"records are lost in {missing}"
    # A sample holds each id once, however often it was counted: it tells that nobody is missing.
    assert all(set(pane.sample.ids.tolist()) <= _ids(found, key) for key, pane in expected.items())
    twice = items(found) - len(log.records)
    assert 0 <= twice <= 2 * EVERY * RATE, f"{twice} records are counted twice"
    FINDINGS.say(f"a replica killed for good: none of {len(log.records)} records lost, {twice} counted twice")


def _ids(panes: Mapping[Key, Pane], key: Key) -> set[str]:
    return set(panes[key].sample.ids.tolist())


class Replicas:
    """`a` has a name in the group and may be killed; `b` and `c` come and go in good order."""

    def __init__(self, stage: Stage) -> None:
        self._configs = {
            NAMED: stage.config(NAMED, source__kafka__session=SESSION, source__kafka__member=NAMED),
            "b": stage.config("b", source__kafka__session=SESSION),
            "c": stage.config("c", source__kafka__session=SESSION),
        }
        self._broker, self._group = stage.broker, stage.topic
        self.here: dict[str, Agent] = {}
        self.ended: list[Agent] = []
        self.done: list[str] = []

    def join(self, name: str) -> None:
        """Start this one."""
        self.here[name] = Agent.start(self._configs[name])
        self.done.append(f"+{name}")

    def leave(self, name: str) -> None:
        """Stop this one in good order."""
        agent = self.here.pop(name)
        self.ended.append(agent)
        agent.stop()
        self.done.append(f"-{name}")

    def kill(self, name: str) -> None:
        """Kill this one and start it again; nobody else comes or goes until it has its partitions back.

        What it had saved and not yet committed would otherwise be read again by whoever gets them.
        """
        wait_until(lambda: members(self._broker, self._group) == len(self.here), 60, "the group is settled")
        agent = self.here.pop(name)
        self.ended.append(agent)
        agent.kill()
        self.done.append(f"!{name}")
        self.join(name)
        wait_until(lambda: self.here[name].said("kafka_partition_placed"), 60, "it has its partitions back")

    def shake(self, name: str) -> None:
        """Something happens to this one. AssertionError if one of them has ended by itself."""
        self.check_running()
        if name == NAMED:
            self.kill(name)
        elif name in self.here:
            self.leave(name)
        else:
            self.join(name)

    def check_running(self) -> None:
        """AssertionError if one of them has ended by itself."""
        for agent in self.here.values():
            agent.check_running()

    def close(self) -> None:
        """Leave nobody behind."""
        for agent in self.here.values():
            agent.kill()


def _storm(stage: Stage, number: int) -> None:
    moments = chance(f"storm {number}")
    # Two deliveries of one record to two replicas cannot be told apart, so there are none.
    traffic = Traffic(chance(f"storm traffic {number}"), hours_ago(), twice=0.0)
    replicas = Replicas(stage)
    with ExitStack() as stack:
        stack.callback(replicas.close)
        with flowing(stage.broker, stage.topic, traffic, RATE):
            replicas.join("a")
            replicas.join("b")
            for name in moments.sample(SHAKES, len(SHAKES)):
                time.sleep(moments.uniform(0, 2))
                replicas.shake(name)
        replicas.check_running()
        stage.wait_until_settled(90)
        for name in sorted(replicas.here):
            replicas.leave(name)
    for agent in replicas.ended:
        agent.metrics.check()
    _check(stage, Log.of(stage.broker, stage.topic))
    FINDINGS.say(f"rebalances: {' '.join(replicas.done)}: every record once over the union of three states")


def _check(stage: Stage, log: Log) -> None:
    windows = stage.loaded("a").windows
    states = [stage.panes(name) for name in ("a", "b", "c") if (stage.root / f"{name}.sqlite").exists()]
    together = thinned_until(union(states), sealed_until(log.records, windows))
    wrong = differences(together, stage.oracle.panes(log.records, windows))
    assert not wrong, wrong[:10]
    kept = letters(stage.root / f"{name}.dead.jsonl" for name in ("a", "b", "c"))
    assert {letter.origin: letter.reason for letter in kept} == log.poison

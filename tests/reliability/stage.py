"""What most of these tests stand on: a configuration for the small reference, and what its agent leaves behind."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.assembly import decision_of
from agent.config import RunConfig, load_config
from tests.cli.workbench import write_config
from tests.reliability.agents import running, wait_until
from tests.reliability.oracle import differences
from tests.reliability.traffic import Log, committed, ends_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from agent.panes import Pane
    from tests.kafka_broker import Broker
    from tests.reliability.oracle import Key, Oracle

# Long enough that no record is late, however far the partitions drift apart; short enough that panes are sealed.
WINDOWS = {"pane": "2m", "short": "10m", "long": "6h", "min_items": 20, "lateness": "40m"}


@dataclass(frozen=True)
class Stage:
    """A directory for configurations, states and dead letters; `topic` is the group's name too."""

    root: Path
    oracle: Oracle
    broker: Broker
    topic: str

    @classmethod
    def with_topic(cls, root: Path, oracle: Oracle, broker: Broker, partitions: int = 3) -> Stage:
        """One with a new topic."""
        topic = f"traffic-{uuid.uuid4().hex[:8]}"
        broker.create_topic(topic, partitions)
        root.mkdir(parents=True, exist_ok=True)
        return cls(root, oracle, broker, topic)

    def on(self, topic: str, partitions: int = 1) -> Stage:
        """The same, with this new topic."""
        self.broker.create_topic(topic, partitions)
        return replace(self, topic=topic)

    def config(self, name: str = "run", **changes: object) -> Path:
        """That of an agent with a state and dead letters of its own; `changes` as for `write_config`."""
        kafka = {
            "servers": [self.broker.bootstrap],
            "topics": [self.topic],
            "group": self.topic,
            "start": "earliest",
            "session": "6s",
        }
        return write_config(
            self.root / f"{name}.yaml", settings(self.oracle, self.root, name, {"kafka": kafka}), changes
        )

    def loaded(self, name: str = "run") -> RunConfig:
        """The same configuration, checked."""
        return load_config(self.root / f"{name}.yaml", RunConfig)

    def panes(self, name: str = "run") -> dict[Key, Pane]:
        """What the state of an agent that has ended holds."""
        return dict(self.oracle.kept(self.loaded(name)).windows.panes)

    def settled(self, group: str = "") -> bool:
        """Whether the group has committed everything that is in the topic."""
        done = committed(self.broker, group or self.topic)
        return all(
            done.get((self.topic, number), 0) == end
            for number, end in ends_of(self.broker, self.topic).items()
            if end
        )

    def wait_until_settled(self, seconds: float = 60.0, group: str = "") -> None:
        """AssertionError if it has not by then."""
        wait_until(lambda: self.settled(group), seconds, "everything is read and committed")

    def read_out(self, config: Path) -> Log:
        """What is in the topic, once an agent has read what was left of it and ended."""
        with running(config) as agent:
            self.wait_until_settled()
            agent.stop()
        return Log.of(self.broker, self.topic)

    def check_panes(self, records: Any, name: str = "run") -> None:  # noqa: ANN401 - a sequence of records
        """AssertionError unless the state holds each of these records once, exactly as the oracle counts them."""
        wrong = differences(self.panes(name), self.oracle.panes(records, self.loaded(name).windows))
        assert not wrong, wrong[:10]
        self.check_evidence(records, name)

    def check_evidence(self, records: Any, name: str = "run") -> None:  # noqa: ANN401 - a sequence of records
        """AssertionError unless the evidence is that of every sealed pane taken in once, in the order of time."""
        config = self.loaded(name)
        state = self.oracle.kept(config)
        panes = self.oracle.panes(records, config.windows, sealed=False)
        over = sorted((start, slice_name) for slice_name, start in panes if start < state.windows.sealed_until)
        decision = decision_of(config, self.oracle.reference)
        decision.sealed([panes[slice_name, start] for start, slice_name in over], 0.0)
        found, wanted = state.decision.decided.watches, decision.decided.watches
        assert found.keys() == wanted.keys()
        for slice_name, watch in wanted.items():
            assert found[slice_name].end == watch.end
            assert np.allclose(found[slice_name].evidence.logs, watch.evidence.logs, rtol=0, atol=1e-9)
            assert (found[slice_name].evidence.since == watch.evidence.since).all()


def settings(oracle: Oracle, root: Path, name: str, source: dict[str, Any]) -> dict[str, Any]:
    """The content of a configuration with this source."""
    return {
        "reference": str(oracle.small.reference),
        "source": source,
        "windows": dict(WINDOWS),
        "state": {"path": str(root / f"{name}.sqlite"), "every": "0.3s"},
        "dead_letters": {"file": str(root / f"{name}.dead.jsonl")},
        "encoding": {"batch": 32, "threads": 1, "device": "cpu"},
        "exporters": {"prometheus": {"port": 0}},
    }


@dataclass(frozen=True)
class Letter:
    """A dead letter as it was kept."""

    origin: str
    reason: str
    items: int
    body: bytes | None


def letters(paths: Iterable[Path]) -> list[Letter]:
    """Every dead letter in these files."""
    lines = [json.loads(line) for path in paths if path.exists() for line in path.read_bytes().splitlines()]
    return [
        Letter(
            line["origin"],
            line["reason"],
            line["items"],
            None if line["body"] is None else base64.b64decode(line["body"]),
        )
        for line in lines
    ]

"""A stand-in for the loop: reads, remembers which records it counted, makes checkpoints, rolls back."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.batch import Batch
from agent.messages import DeadLetter
from agent.records import Record
from agent.source_config import KafkaSourceConfig
from agent.sources.kafka.source import KafkaSource
from agent.sources.kafka.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agent.messages import Message
    from tests.kafka_broker import Broker

QUICK = Timing(grace=5.0, commit=1.5, look=0.2, ask=1.0, read=0.05, poll=0.05, join=0.1, contact=10.0)


class Opened:
    """Every message is a record named by its body; a body of `bad`, or none that can be read, is a dead letter."""

    def batch(self, messages: Sequence[Message], positions: Mapping[str, int]) -> Batch:
        """In the order in which they came."""
        records, letters = [], []
        for message in messages:
            body = (message.body or b"").decode()
            if message.unreadable or body == "bad":
                letters.append(DeadLetter(message, "unreadable" if message.unreadable else "not_json"))
            else:
                records.append(Record(body, body, message.arrival))
        return Batch(tuple(records), letters=tuple(letters), positions=dict(positions))


@dataclass
class Loop:
    """Counts what a source gives, as agent/loop.py does; `steps` is the number of reads."""

    source: KafkaSource
    positions: dict[str, int] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    confirmed: tuple[dict[str, int], Counter[str]] = ({}, Counter())
    letters: list[DeadLetter] = field(default_factory=list)
    settled: int = 0
    lost: int = 0

    def begin(self) -> Loop:
        """As the loop does, before anything else."""
        self.confirmed = (dict(self.positions), self.counted.copy())
        self.source.seek(self.positions)
        return self

    def step(self) -> Batch:
        """One read and all that follows from it."""
        batch = self.source.read()
        if batch.lost:
            self.lost += 1
            self.positions, self.counted = dict(self.confirmed[0]), self.confirmed[1].copy()
            self.source.seek(self.positions)
        self.counted.update(record.id for record in batch.records)
        self.letters.extend(batch.letters)
        self.positions.update(batch.positions)
        if batch.settle:
            self.settled += 1
            self.checkpoint()
        return batch

    def checkpoint(self) -> bool:
        """Commit, and remember the state if that was confirmed."""
        done = self.source.commit(self.positions)
        if done:
            self.confirmed = (dict(self.positions), self.counted.copy())
        return done

    def until(self, reached: Callable[[], Any], seconds: float = 20.0) -> None:
        """Step until this holds."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, f"not within {seconds} s: {self.source.status()}"
            self.step()

    def count(self, number: int) -> None:
        """Step until so many records are counted."""
        self.until(lambda: self.counted.total() >= number)


def settings(broker: Broker, topic: str, **changes: Any) -> KafkaSourceConfig:  # noqa: ANN401 - any key
    """A configuration whose group is the topic's own, with a session shorter than the command line allows."""
    given = {"servers": (broker.bootstrap,), "topics": (topic,), "group": topic, "start": "earliest", **changes}
    session = given.pop("session", 6.0)
    return KafkaSourceConfig(**given).model_copy(update={"session": session})


@contextmanager
def reading(
    config: KafkaSourceConfig,
    positions: Mapping[str, int] | None = None,
    *,
    owner: str = "ours",
    size: int = 50,
    timing: Timing = QUICK,
) -> Iterator[Loop]:
    """A loop over a source of its own, which is closed at the end."""
    source = KafkaSource(config, Opened(), size, owner, timing)
    try:
        yield Loop(source, dict(positions or {})).begin()
    finally:
        source.close()


def wait_for(reached: Callable[[], Any], seconds: float = 20.0) -> None:
    """Look until this holds."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)

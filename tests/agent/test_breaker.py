"""The circuit breaker."""

from __future__ import annotations

from agent.batch import Batch
from agent.breaker import Breaker
from agent.messages import DeadLetter, Message
from agent.reasons import Reason
from agent.records import Record
from agent.source_config import BreakerConfig


def batch(good: int, bad: int, origin: str = "t:0:7", late: int = 0) -> Batch:
    """Good records, dead letters and late ones."""
    letter = DeadLetter(Message(b"", origin, 0.0), "not_json")
    records = tuple(Record(str(number), "text", 0.0) for number in range(good))
    return Batch(records, rejected={Reason.LATE: late} if late else {}, letters=(letter,) * bad)


def test_trips_once_at_the_ratio_of_the_last_records() -> None:
    """It says how many, why and where first, and then nothing more."""
    breaker = Breaker(BreakerConfig(ratio=0.5, least=10))
    assert breaker.observe(batch(6, 4)) is None
    tripped = breaker.observe(batch(4, 6))
    assert tripped
    assert (tripped.settled, tripped.unusable, tripped.reasons, tripped.first) == (
        10,
        6,
        {"not_json": 6},
        "t:0:7",
    )
    assert breaker.observe(batch(0, 100)) is None


def test_waits_for_enough_records() -> None:
    """A few bad ones at the start do not stop anything."""
    breaker = Breaker(BreakerConfig(ratio=0.5, least=10))
    assert breaker.observe(batch(0, 9)) is None
    assert breaker.observe(batch(0, 0)) is None
    assert breaker.observe(batch(0, 1))


def test_looks_only_at_the_last_records() -> None:
    """A long good past does not hide that the sender has changed."""
    breaker = Breaker(BreakerConfig(ratio=0.9, least=100))
    for _ in range(50):
        assert breaker.observe(batch(100, 0)) is None
    assert breaker.observe(batch(0, 50, "t:0:1")) is None
    assert breaker.observe(batch(0, 50, "t:0:2")) is not None


def test_late_records_are_usable() -> None:
    """What is rejected for its time says nothing about the format."""
    assert Breaker(BreakerConfig(ratio=0.5, least=10)).observe(batch(1, 0, late=99)) is None


def test_pairs_count_when_they_are_settled() -> None:
    """The batch in which responses come receives nothing: their records came with the requests."""
    breaker = Breaker(BreakerConfig(ratio=0.5, least=100))
    found = []
    for _ in range(10):
        found.append(breaker.observe(Batch(waiting=20)))
        found.append(breaker.observe(Batch(rejected={Reason.LOGITS_WIDTH: 20}, waiting=-20)))
    (tripped,) = filter(None, found)
    assert found.index(tripped) == 9
    assert (tripped.settled, tripped.unusable) == (100, 100)


def test_responses_that_cannot_be_read_count_at_once() -> None:
    """Their requests wait in vain, and say nothing of the format."""
    breaker = Breaker(BreakerConfig(ratio=0.5, least=100))
    for _ in range(4):
        assert breaker.observe(Batch(waiting=20)) is None
        assert breaker.observe(batch(0, 20)) is None
    assert breaker.observe(Batch(waiting=20)) is None
    assert breaker.observe(batch(0, 20))

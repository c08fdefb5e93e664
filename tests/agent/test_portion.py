"""How many messages make a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.batch import Batch
from agent.messages import DeadLetter, Message
from agent.reasons import Reason
from agent.records import Label, Record
from agent.sources.portion import Portion

RECORD = Record("1", "text", 0.0)
LETTER = DeadLetter(Message(b"", "t:0:7", 0.0), "not_json", items=100)


def learn(portion: Portion, each: int) -> int:
    """Take the portion of messages that hold so many records each; how many records that made."""
    made = portion.messages * each
    portion.learn(portion.messages, Batch((RECORD,) * made))
    return made


def test_begins_with_one_message_and_grows_to_the_size() -> None:
    """Nothing is known of the first one."""
    portion = Portion(64)
    assert [learn(portion, 1) for _ in range(5)] == [1, 4, 16, 64, 64]


def test_large_messages_make_batches_of_about_the_size() -> None:
    """What one message holds cannot be divided."""
    portion = Portion(64)
    assert [learn(portion, 1500) for _ in range(3)] == [1500] * 3
    portion = Portion(64)
    assert [learn(portion, 10) for _ in range(4)] == [10, 40, 60, 60]


def test_messages_that_become_large_make_one_batch_too_large_and_small_ones_are_soon_taken_whole() -> None:
    """A few batches after the last large one, a batch is full again."""
    portion = Portion(64)
    for _ in range(4):
        learn(portion, 1)
    assert learn(portion, 1500) == 64 * 1500
    assert learn(portion, 1500) == 1500
    assert [learn(portion, 1) for _ in range(7)] == [1, 1, 1, 4, 16, 64, 64]


def test_requests_and_responses_in_turn_do_not_hide_each_other() -> None:
    """Of requests nothing comes but halves that wait; of responses all of it."""
    portion = Portion(64)
    for _ in range(10):
        portion.learn(portion.messages, Batch(waiting=portion.messages))
        portion.learn(portion.messages, Batch((RECORD,) * 16 * portion.messages, waiting=-portion.messages))
    assert portion.messages == 4


@pytest.mark.parametrize(
    "batch",
    [
        Batch((RECORD,) * 100),
        Batch(rejected={Reason.DUPLICATE: 100}),
        Batch(letters=(LETTER,)),
        Batch(waiting=100),
        Batch(labels=(Label("1", "good", 0.0),) * 100),
    ],
)
def test_whatever_was_decoded_counts(batch: Batch) -> None:
    """Also what was not used: it took its time."""
    portion = Portion(200)
    portion.learn(1, batch)
    assert portion.messages == 2


def test_no_messages_teach_nothing() -> None:
    """A quiet topic is not one of empty messages."""
    portion = Portion(64)
    portion.learn(0, Batch())
    assert portion.messages == 1


@given(st.integers(1, 500), st.lists(st.integers(0, 3000), max_size=30))
def test_is_always_between_one_and_the_size(size: int, each: list[int]) -> None:
    """Whatever came."""
    portion = Portion(size)
    for records in each:
        learn(portion, records)
        assert 1 <= portion.messages <= size

"""The queue in bytes, the lag and the watchdog."""

from __future__ import annotations

from agent.messages import Message
from agent.sources.kafka.byte_queue import OVERHEAD, ByteQueue, Fetched
from agent.sources.kafka.holding import Holding
from agent.sources.kafka.placing import Partition
from agent.sources.kafka.watchdog import Watchdog


def fetched(body: bytes, holding: Holding | None = None) -> Fetched:
    """A message with this body."""
    return Fetched(
        holding or Holding(("t", 0)), 1, Message(body, "t:0:0", 0.0, headers=(("id", b"12"),), key=b"k")
    )


def test_size_counts_body_key_headers_and_what_python_needs() -> None:
    """A tombstone is not free."""
    assert fetched(b"x" * 10).size == OVERHEAD + 10 + 4 + 1
    assert Fetched(Holding(("t", 0)), 1, Message(None, "t:0:0", 0.0)).size == OVERHEAD


def test_queue_is_full_from_the_high_mark_until_the_low_mark() -> None:
    """Once full it stays so until half of it is gone."""
    one = fetched(b"x" * 95)
    queue = ByteQueue(4 * one.size)
    queue.put([one] * 3)
    assert not queue.full
    queue.put([one])
    assert queue.full
    queue.take(1)
    assert queue.full
    queue.take(1)
    assert not queue.full


def test_queue_gives_messages_in_order_and_counts_them_by_partition() -> None:
    """What is taken or dropped is no longer counted."""
    left, right = Holding(("t", 0)), Holding(("t", 1))
    queue = ByteQueue(1 << 20)
    queue.put([fetched(b"1", left), fetched(b"2", right), fetched(b"3", left)])
    assert (left.queued, right.queued) == (2, 1)
    assert [one.message.body for one in queue.take(2)] == [b"1", b"2"]
    queue.clear()
    assert (left.queued, right.queued, queue.bytes, len(queue)) == (0, 0, 0, 0)


def test_lag_counts_what_is_queued_and_not_what_no_record_will_ever_fill() -> None:
    """The end of a transaction takes an offset of the log that nobody takes."""
    holding = Holding(("t", 0))
    holding.begin(Partition("t", "", 0), offset=10, end=20, committed=None)
    assert (holding.lag(dropped=False), holding.unread) == (10, 10)
    holding.reached, holding.queued = 20, 9
    assert (holding.lag(dropped=False), holding.unread) == (10, 0)
    holding.position, holding.queued = 19, 0
    assert holding.lag(dropped=False) == 0
    assert holding.lag(dropped=True) == 1


def test_gone_partition_is_placed_only_once_its_messages_are_taken() -> None:
    """What was read of a partition before it was gone still belongs to where it was."""
    holding = Holding(("t", 0))
    holding.begin(Partition("t", "", 0), offset=10, end=20, committed=None)
    holding.gone, holding.queued = True, 1
    assert not holding.astray
    holding.queued = 0
    assert holding.astray


def test_watchdog_barks_after_so_long_with_something_to_read_and_nothing_read() -> None:
    """Reading anything, or having nothing to read, quiets it."""
    dog = Watchdog(10.0)
    dog.turn(0.0)
    dog.wait(1.0)
    dog.wait(5.0)
    dog.turn(10.0)
    assert not dog.stuck(10.9)
    assert dog.stuck(11.0)
    dog.rest()
    assert not dog.stuck(11.0)


def test_watchdog_barks_when_the_thread_hangs() -> None:
    """A call that never comes back is stuck too; a thread that has not begun is not."""
    dog = Watchdog(10.0)
    assert not dog.stuck(1e9)
    dog.turn(0.0)
    assert not dog.stuck(9.0)
    assert dog.stuck(10.0)

"""The queue in bytes, the lag and the watchdog."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

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


def stamped(holding: Holding, *stamps: float, arrival: float = 1e9) -> list[Fetched]:
    """Messages of this partition that were written then, each named by its place."""
    return [
        Fetched(holding, place + 1, Message(b"", f"{holding.spot[1]}:{place}", arrival, stamp=stamp))
        for place, stamp in enumerate(stamps)
    ]


def origins(taken: list[Fetched]) -> list[str]:
    """Partition and place of each."""
    return [one.message.origin for one in taken]


def test_oldest_of_all_partitions_goes_first_however_they_were_read() -> None:
    """One that was read far ahead waits for the others."""
    left, right = Holding(("t", 0)), Holding(("t", 1))
    queue = ByteQueue(1 << 20)
    queue.put(stamped(left, 1, 3, 5, 7))
    assert origins(queue.take(1)) == ["0:0"]
    queue.put(stamped(right, 2, 4, 8))
    assert origins(queue.take(3)) == ["1:0", "0:1", "1:1"]
    assert (left.queued, right.queued) == (2, 1)
    assert origins(queue.take(9)) == ["0:2", "0:3", "1:2"]


def test_partitions_of_the_same_time_take_turns() -> None:
    """A topic without times is no reason to leave a partition out."""
    left, right = Holding(("t", 0)), Holding(("t", 1))
    queue = ByteQueue(1 << 20)
    queue.put([*stamped(left, 0, 0, 0), *stamped(right, 0, 0)])
    assert origins(queue.take(9)) == ["0:0", "1:0", "0:1", "1:1", "0:2"]


def test_partition_keeps_its_own_order_though_its_stamps_go_back() -> None:
    """Its positions only go forward; what was written late waits behind what is before it."""
    left, right = Holding(("t", 0)), Holding(("t", 1))
    queue = ByteQueue(1 << 20)
    queue.put([*stamped(left, 5, 1, 9), *stamped(right, 3, 4, 6)])
    assert origins(queue.take(9)) == ["1:0", "1:1", "0:0", "0:1", "1:2", "0:2"]


def test_clock_that_is_ahead_counts_as_that_of_the_reading() -> None:
    """Its messages would wait until all the others have nothing more."""
    left, right = Holding(("t", 0)), Holding(("t", 1))
    queue = ByteQueue(1 << 20)
    queue.put([*stamped(left, 5000, arrival=10), *stamped(right, 9, 11, arrival=12)])
    assert origins(queue.take(9)) == ["1:0", "0:0", "1:1"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60),
    st.integers(1, 9),
)
def test_order_is_that_of_sorting(messages: list[tuple[int, int]], most: int) -> None:
    """With stamps that only rise, sorted by stamp; always all of them, and each partition in its own order."""
    holdings = [Holding(("t", number)) for number in range(4)]
    lines: dict[int, list[float]] = defaultdict(list)
    for number, stamp in messages:
        lines[number].append(stamp)
    for rising in (True, False):
        queue = ByteQueue(1 << 20)
        for number, stamps in lines.items():
            queue.put(stamped(holdings[number], *(sorted(stamps) if rising else stamps)))
        taken = [one for _ in range(len(messages)) for one in queue.take(most)]
        assert len(taken) == len(messages)
        assert (len(queue), queue.bytes, sum(held.queued for held in holdings)) == (0, 0, 0)
        for number, stamps in lines.items():
            places = [one.following for one in taken if one.holding is holdings[number]]
            assert places == list(range(1, len(stamps) + 1))
        if rising:
            assert [one.message.stamp for one in taken] == sorted(stamp for _, stamp in messages)


def test_bytes_taken_at_once_are_bounded_too() -> None:
    """As many as are allowed, and one message more; always one."""
    one = fetched(b"x" * 95)
    queue = ByteQueue(1 << 20)
    queue.put([one] * 10)
    assert len(queue.take(10, 2 * one.size)) == 2
    assert len(queue.take(10, 2 * one.size + 1)) == 3
    assert len(queue.take(10, 1)) == 1
    assert len(queue.take(10, 1 << 20)) == 4


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

"""What the loop and the reading thread share."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from agent.errors import ServiceError
from agent.messages import Message
from agent.sources.kafka.desk import Desk
from agent.sources.kafka.placing import Found, Partition, Rules, place
from agent.sources.portion import BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

SPOT = ("t", 0)
HERE = Partition("t", "id", 0)
RULES = Rules("ours", "earliest", "stop")


def placed(desk: Desk, found: Found | None = None) -> bool:
    """Place what is to be placed, as the reading thread does."""
    astray, stored, seek = desk.unplaced()
    placement = place(HERE, stored, found or Found(0, 100), RULES)
    return all(desk.place(holding, HERE, placement, seek) for holding in astray)


def put(desk: Desk, start: int, end: int) -> None:
    """Messages of these offsets."""
    messages = [Message(b"x", f"t:0:{offset}", 0.0) for offset in range(start, end)]
    desk.put(SPOT, messages, list(range(start + 1, end + 1)))


@pytest.fixture
def desk() -> Desk:
    """One partition, placed at 0, with ten messages in the queue."""
    desk = Desk(1 << 20)
    desk.seek({})
    desk.assign([SPOT])
    assert placed(desk)
    put(desk, 0, 10)
    return desk


def put_in(desk: Desk, number: int, *stamps: float, start: int = 0) -> None:
    """Messages of this partition that were written then."""
    messages = [Message(b"x" * 100, f"{number}:{stamp:g}", 1e9, stamp=stamp) for stamp in stamps]
    desk.put(("t", number), messages, list(range(start + 1, start + len(stamps) + 1)))


def two(queue_bytes: int = 1 << 20) -> Desk:
    """Two partitions of a hundred messages each, placed, and nothing read."""
    desk = Desk(queue_bytes)
    desk.seek({})
    desk.assign([("t", 0), ("t", 1)])
    astray, stored, seek = desk.unplaced()
    for holding in astray:
        partition = Partition("t", "id", holding.spot[1])
        assert desk.place(holding, partition, place(partition, stored, Found(0, 100), RULES), seek)
    return desk


def taken(desk: Desk, wait: float = 0.0) -> list[str]:
    """The origins of what is taken."""
    return [message.origin for message in desk.take(50, wait).messages]


def meanwhile(act: Callable[[], object]) -> Thread:
    """Do this in another thread."""
    thread = Thread(target=act)
    thread.start()
    return thread


def committing(desk: Desk, *, given: bool) -> Thread:
    """A reading thread that answers the next commit."""

    def act() -> None:
        while (commit := desk.next_commit()) is None:
            pass
        desk.answer(commit, given=given)

    return meanwhile(act)


def test_position_follows_what_is_taken(desk: Desk) -> None:
    """The queue is ahead of the loop; only what the loop has is said to it."""
    taken = desk.take(4, 0.0)
    assert [message.origin for message in taken.messages] == ["t:0:0", "t:0:1", "t:0:2", "t:0:3"]
    assert taken.positions == {HERE.key: 4}
    assert desk.status(stuck=False).lag == {("t", "0"): 96}


def test_commit_that_nobody_takes_in_hand_is_withdrawn(desk: Desk) -> None:
    """Given up by the loop, it must not be done later."""
    positions = desk.take(4, 0.0).positions
    assert not desk.submit(positions, 0.0)
    assert desk.next_commit() is None
    assert desk.status(stuck=False).events["commit_failed"] == 1


@pytest.mark.parametrize("given", [True, False])
def test_commit_is_answered_by_who_did_it(desk: Desk, *, given: bool) -> None:
    """Nothing is committed twice, and a failure is tried again with the next checkpoint."""
    positions = desk.take(4, 0.0).positions
    thread = committing(desk, given=given)
    assert desk.submit(positions, 10.0) is given
    thread.join()
    assert desk.submit(positions, 0.0) is given


def test_partition_that_the_loop_knows_nothing_of_is_not_committed(desk: Desk) -> None:
    """Another replica may know more of it than our state."""
    assert desk.submit({HERE.key: 0}, 0.0)
    assert desk.submit({"t@other:0": 7}, 0.0)


def test_settling_drops_the_queue_and_asks_for_a_checkpoint(desk: Desk) -> None:
    """Once that is confirmed the partitions can go, and nothing is lost."""
    positions = desk.take(4, 0.0).positions
    desk.begin_settling()
    assert desk.take(4, 0.0).settle
    thread = committing(desk, given=True)
    assert desk.submit(positions, 10.0)
    thread.join()
    assert desk.settled
    desk.release()
    taken = desk.take(4, 0.0)
    assert (list(taken.messages), taken.positions, taken.settle, taken.lost) == ([], {}, False, False)
    assert desk.submit(positions, 0.0)
    status = desk.status(stuck=False)
    assert (status.assigned, status.lag, status.events["revoked"], status.events["lost"]) == (False, {}, 1, 0)


def test_partitions_that_are_not_settled_are_lost(desk: Desk) -> None:
    """Until the loop has gone back, it gets nothing, and nothing of its own is confirmed."""
    positions = desk.take(4, 0.0).positions
    desk.begin_settling()
    desk.release()
    desk.assign([SPOT])
    assert desk.unplaced()[0] == []
    assert desk.take(4, 0.0).lost
    assert not desk.submit(positions, 0.0)
    desk.seek({})
    assert placed(desk)
    put(desk, 0, 4)
    assert desk.take(4, 0.0).positions == {HERE.key: 4}


def test_settled_partitions_need_no_second_checkpoint(desk: Desk) -> None:
    """A rebalance soon after a checkpoint does not wait for another."""
    positions = desk.take(4, 0.0).positions
    thread = committing(desk, given=True)
    assert desk.submit(positions, 10.0)
    thread.join()
    desk.begin_settling()
    assert desk.settled


def test_what_was_looked_up_before_a_seek_is_void(desk: Desk) -> None:
    """The positions have changed since, so the partition is placed again; old messages are dropped."""
    astray, _, before = desk.unplaced()
    assert astray == []
    desk.seek({HERE.key: 50})
    (holding,), stored, seek = desk.unplaced()
    placement = place(HERE, stored, Found(0, 100), RULES)
    assert not desk.place(holding, HERE, placement, before)
    put(desk, 0, 10)
    assert desk.take(10, 0.0).messages == []
    assert desk.place(holding, HERE, placement, seek)
    assert desk.take(10, 0.0).positions == {HERE.key: 50}


def test_policy_to_stop_empties_the_queue(desk: Desk) -> None:
    """Nothing is read from anything until someone steps in."""
    desk.take(10, 0.0)
    desk.gone([SPOT])
    assert placed(desk, Found(50, 100, gone=True))
    put(desk, 50, 60)
    assert desk.take(10, 0.0).messages == []
    status = desk.status(stuck=False)
    assert (status.stopped, status.paused, status.events["out_of_range"]) == ("out_of_range", True, 1)


def test_draining_waits_only_for_the_way_back_from_a_loss(desk: Desk) -> None:
    """What is in the queue can be read again after a restart; what was lost must not be saved as ours."""
    desk.take(4, 0.0)
    assert not desk.drain()
    put(desk, 10, 20)
    assert desk.take(4, 0.0).messages == []
    assert desk.status(stuck=False).lag == {("t", "0"): 96}
    desk.lose()
    assert desk.drain()
    assert desk.take(4, 0.0).lost
    desk.seek({})
    assert not desk.drain()


def test_failure_reaches_the_loop_and_whoever_waits(desk: Desk) -> None:
    """Reading is over for good."""
    positions = desk.take(4, 0.0).positions

    def fail() -> None:
        while desk.next_commit() is None:
            pass
        desk.fail(ServiceError("gone"))

    thread = meanwhile(fail)
    assert not desk.submit(positions, 10.0)
    thread.join()
    with pytest.raises(ServiceError, match="gone"):
        desk.take(4, 0.0)
    assert desk.settled


def test_partition_that_is_missing_is_waited_for() -> None:
    """It may hold what is older; once it is there, the oldest goes first."""
    desk = two()
    put_in(desk, 0, 5, 6)
    thread = meanwhile(lambda: put_in(desk, 1, 4, 7))
    assert taken(desk, 10.0) == ["1:4", "0:5", "0:6"]
    thread.join()


def test_missing_partition_is_not_waited_for_again_and_again() -> None:
    """Its broker may be away: others go on, and it is waited for again only after it has come once more."""
    desk = two()
    put_in(desk, 0, 5)
    assert taken(desk) == ["0:5"]
    put_in(desk, 0, 6, start=1)
    assert taken(desk, 60.0) == ["0:6"]
    put_in(desk, 1, 3)
    put_in(desk, 0, 8, start=2)
    assert taken(desk, 60.0) == ["1:3"]
    thread = meanwhile(lambda: put_in(desk, 1, 7, start=1))
    assert taken(desk, 10.0) == ["1:7"]
    thread.join()


def test_wait_for_the_first_message_is_not_one_for_those_that_are_missing() -> None:
    """After a start nothing has come yet: the first partition to come does not run ahead for that."""
    desk = two()
    assert taken(desk) == []
    put_in(desk, 0, 5)
    thread = meanwhile(lambda: put_in(desk, 1, 4))
    assert taken(desk, 10.0) == ["1:4"]
    thread.join()


def test_batch_ends_where_a_partition_runs_out() -> None:
    """What comes next of it may be older than what the others have."""
    desk = two()
    put_in(desk, 0, 1, 3)
    put_in(desk, 1, 2, 4, 6)
    assert taken(desk, 60.0) == ["0:1", "1:2", "0:3"]
    put_in(desk, 0, 5, 7, start=2)
    assert taken(desk, 60.0) == ["1:4", "0:5", "1:6"]
    assert taken(desk) == ["0:7"]


def test_only_what_has_more_to_read_is_missing() -> None:
    """One that is read to its end, or cannot be read where it was, keeps nobody waiting."""
    desk = two()
    put_in(desk, 0, *range(100))
    desk.refresh(lambda _: (100, 100))
    assert len(taken(desk, 60.0)) == 50
    desk = two()
    put_in(desk, 0, 5)
    desk.gone([("t", 1)])
    assert taken(desk, 60.0) == ["0:5"]


def test_full_queue_leaves_only_those_to_be_read_that_have_nothing_in_it() -> None:
    """The others would be handed out far ahead of them; each one read ends that."""
    desk = two(1200)
    assert desk.wanted() == {("t", 0), ("t", 1)}
    put_in(desk, 0, 5, 6, 7)
    assert (desk.paused, desk.wanted()) == (True, {("t", 1)})
    put_in(desk, 1, 4)
    assert desk.wanted() == set()
    assert taken(desk, 60.0) == ["1:4"]
    assert (desk.paused, desk.wanted()) == (True, {("t", 1)})
    assert taken(desk) == ["0:5", "0:6", "0:7"]
    assert desk.wanted() == {("t", 0), ("t", 1)}


def test_full_queue_does_not_wait_for_a_missing_partition_for_ever() -> None:
    """Nothing can be read of who is full until something is taken."""
    desk = two(1200)
    put_in(desk, 0, 5, 6, 7)
    assert taken(desk) == ["0:5", "0:6", "0:7"]


def test_one_batch_holds_so_many_bytes_at_most() -> None:
    """And one message more: decoded they take several times as much."""
    desk = two(1 << 30)
    large = [Message(b"x" * (1 << 20), str(number), 0.0) for number in range(10)]
    for number in range(2):
        desk.put(("t", number), large, list(range(1, 11)))
    assert BATCH_BYTES == 4 << 20
    assert len(desk.take(50, 0.0).messages) == 4

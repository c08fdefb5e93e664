"""What the loop, the reading thread and the rebalance listener share, under one lock.

The loop takes messages and hands in positions to commit. The reading thread puts messages in, places partitions
and does the commits; while the listener holds that thread up, the listener does them. So nobody waits for anybody
who might be waiting for him.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Condition
from typing import TYPE_CHECKING

from agent.report import SourceStatus
from agent.sources.kafka.byte_queue import ByteQueue, Fetched
from agent.sources.kafka.holding import Holding, Spot
from agent.sources.kafka.placing import ASSIGNED, COMMIT_FAILED, EVENTS, LOST, REVOKED
from agent.sources.portion import BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agent.errors import ServiceError
    from agent.messages import Message
    from agent.sources.kafka.placing import Partition, Placement


@dataclass(frozen=True, slots=True)
class Taken:
    """What the loop gets: messages and the positions after them, or that it must settle, or that all is lost."""

    messages: Sequence[Message] = ()
    positions: Mapping[str, int] = field(default_factory=dict)
    settle: bool = False
    lost: bool = False


@dataclass(slots=True, eq=False)
class Commit:
    """Offsets to commit. Once somebody has it in hand it is answered; until then it can be withdrawn."""

    offsets: dict[Spot, int]
    in_hand: bool = False
    answer: bool | None = None


class Desk:
    """Every method may be called from any thread; only `take` and `submit` wait."""

    def __init__(self, queue_bytes: int) -> None:
        self._changed = Condition()
        self._queue = ByteQueue(queue_bytes)
        self._holdings: dict[Spot, Holding] = {}
        self._stored: dict[str, int] = {}
        # Goes up with every seek: what was looked up for the positions before it is void.
        self._seeks = 0
        self._commit: Commit | None = None
        self._settling = False
        self._lost = False
        self._failure: ServiceError | None = None
        self._events = Counter(dict.fromkeys(EVENTS, 0))
        self._draining = False
        self.stopped = ""
        self.closing = False

    # The loop's side.

    def seek(self, positions: Mapping[str, int]) -> None:
        """Place every partition anew, from these positions. Ends a loss."""
        with self._changed:
            self._stored = dict(positions)
            self._seeks += 1
            self._lost = False
            self._queue.clear()
            for holding in self._holdings.values():
                holding.unplace()

    def take(self, most: int, wait: float) -> Taken:
        """What there is, after at most `wait` seconds. The ServiceError with which reading failed, if it did.

        The oldest is taken first, and of which partition it is, shows once each has something to show. So with
        messages of some, the missing ones are waited for, but only once until they have something again.
        """
        with self._changed:
            ready = bool(len(self._queue))
            self._changed.wait_for(self._something, wait)
            if self._failure:
                raise self._failure
            if self._lost:
                return Taken(lost=True)
            if self._unsettled():
                return Taken(settle=True)
            if ready:  # a whole `wait` long
                self._wait_no_more()
            fetched = [] if self._missing() else self._queue.take(most, BATCH_BYTES)
            for one in fetched:
                one.holding.position = one.following
            # Where we began is told too: a record that comes after a crash would else be skipped by `latest`.
            touched = {one.holding for one in fetched} | {held for held in self._placed() if not held.told}
            for holding in touched:
                holding.told = True
            positions = {held.place.key: held.position for held in touched if held.place}
            return Taken([one.message for one in fetched], positions)

    def _something(self) -> bool:
        if self._over() or self._lost or self._unsettled():
            return True
        return len(self._queue) > 0 and not self._missing()

    def _missing(self) -> list[Holding]:
        return [held for held in self._placed() if held.missing]

    def _wait_no_more(self) -> None:
        for holding in self._missing():
            holding.awaited = True

    def _over(self) -> bool:
        return self.closing or self._failure is not None

    def _unsettled(self) -> bool:
        return self._settling and not all(holding.settled for holding in self._holdings.values())

    def submit(self, positions: Mapping[str, int], wait: float) -> bool:
        """Have these positions committed; whether they were.

        False too if nobody took them in hand for `wait` seconds, or did not answer for as long again.
        """
        with self._changed:
            if self._lost or self._over():
                return False
            self._stored.update(positions)
            due = self._due(positions)
            if not due:
                return True
            commit = self._commit = Commit(due)
            self._changed.wait_for(lambda: commit.in_hand or commit.answer is not None, wait)
            if commit.in_hand and commit.answer is None:
                self._changed.wait_for(lambda: commit.answer is not None, wait)
            if commit.answer is None:
                self._events[COMMIT_FAILED] += 1
                commit.answer = False
            self._commit = None
            return commit.answer

    def _due(self, positions: Mapping[str, int]) -> dict[Spot, int]:
        """Only what the loop has taken: of the rest another replica may know more."""
        told = [
            (held, positions.get(held.place.key)) for held in self._holdings.values() if held.place and held.told
        ]
        return {held.spot: offset for held, offset in told if offset is not None and offset != held.committed}

    def stop(self, reason: str) -> None:
        """Read no more. Only the first reason counts."""
        with self._changed:
            self.stopped = self.stopped or reason
            self._queue.clear()

    def drain(self) -> bool:
        """Hand out no more messages; whether the loop must still go back from a loss."""
        with self._changed:
            self._draining = True
            self._queue.clear()
            return self._lost and not self._over()

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self.closing = True
            self._queue.clear()
            self._changed.notify_all()

    def status(self, *, stuck: bool) -> SourceStatus:
        """How it all stands."""
        with self._changed:
            dropped = self._shut()
            return SourceStatus(
                assigned=self.assigned,
                stopped=self.stopped,
                stuck=stuck,
                lag={(held.spot[0], str(held.spot[1])): held.lag(dropped=dropped) for held in self._placed()},
                events=dict(self._events),
                queue_bytes=self._queue.bytes,
                paused=self.paused,
            )

    # The reading thread's side.

    @property
    def paused(self) -> bool:
        """Whether nothing more should be read for now, but of partitions that have nothing in the queue."""
        return self._queue.full or self._shut()

    def _shut(self) -> bool:
        return bool(self.stopped) or self._draining or self.closing

    def wanted(self) -> set[Spot]:
        """The partitions of which more should be read now.

        With a full queue just those that have nothing in it: the others would be handed out far ahead of them.
        """
        with self._changed:
            full, placed = self._queue.full, [] if self._shut() else self._placed()
            return {held.spot for held in placed if not (held.gone or (full and held.queued))}

    @property
    def assigned(self) -> bool:
        """Whether any partition is ours."""
        return bool(self._holdings)

    def placed(self) -> list[Holding]:
        """The partitions that we know where to read."""
        with self._changed:
            return self._placed()

    def _placed(self) -> list[Holding]:
        return [held for held in self._holdings.values() if held.place]

    def unplaced(self) -> tuple[list[Holding], dict[str, int], int]:
        """The partitions to place now, from which positions, and the number of the seek that gave them.

        Nothing while a loss is not made good, or with reading stopped.
        """
        with self._changed:
            waiting = (
                [] if self._lost or self.stopped else [held for held in self._holdings.values() if held.astray]
            )
            return waiting, dict(self._stored), self._seeks

    def place(self, holding: Holding, partition: Partition, placement: Placement, seek: int) -> bool:
        """Note where the partition is read from, and what that was like; whether it is still wanted."""
        with self._changed:
            if self._seeks != seek or self._lost or self._holdings.get(holding.spot) is not holding:
                return False
            self._events.update(placement.events)
            if placement.offset is None:
                self.stopped = self.stopped or "out_of_range"
                self._queue.clear()
            else:
                holding.begin(partition, placement.offset, placement.end, placement.confirmed)
            return True

    def gone(self, spots: Iterable[Spot]) -> None:
        """These can no longer be read where we are: place them anew, once what was read of them is taken."""
        with self._changed:
            for holding in filter(None, map(self._holdings.get, spots)):
                holding.gone = True

    def put(self, spot: Spot, messages: Sequence[Message], following: Sequence[int]) -> None:
        """Messages of one partition and the offset after each; dropped if the partition is not read any more."""
        with self._changed:
            holding = self._holdings.get(spot)
            if holding is None or holding.place is None or self._shut():
                return
            holding.reached = following[-1]
            holding.awaited = False
            self._queue.put(map(Fetched, [holding] * len(messages), following, messages))
            self._changed.notify_all()

    def fail(self, error: ServiceError) -> None:
        """Reading is over for good."""
        with self._changed:
            self._failure = self._failure or error
            self._answer(given=False)
            self._changed.notify_all()

    def next_commit(self) -> Commit | None:
        """The commit that waits for somebody to do it; then that is you."""
        with self._changed:
            commit = self._commit
            if commit is None or commit.in_hand or commit.answer is not None:
                return None
            commit.in_hand = True
            self._changed.notify_all()
            return commit

    def answer(self, commit: Commit, *, given: bool) -> None:
        """Whether the broker has taken note."""
        with self._changed:
            if given:
                for spot, offset in commit.offsets.items():
                    if holding := self._holdings.get(spot):
                        holding.committed = offset
            elif commit.answer is None:
                self._events[COMMIT_FAILED] += 1
            if commit.answer is None:
                commit.answer = given
            self._changed.notify_all()

    # The listener's side.

    def assign(self, spots: Iterable[Spot]) -> None:
        """These partitions are ours now, to be placed."""
        with self._changed:
            for spot in spots:
                self._holdings[spot] = Holding(spot)
                self._events[ASSIGNED] += 1

    def begin_settling(self) -> None:
        """Drop what the loop has not taken, and have it make a checkpoint of what it has."""
        with self._changed:
            self._queue.clear()
            self._settling = True
            self._changed.notify_all()

    @property
    def settled(self) -> bool:
        """Whether the broker has everything that the loop has taken, or nobody will ever settle it."""
        with self._changed:
            return self._over() or not self._unsettled()

    def release(self) -> None:
        """Every partition was given up: in good order if what the loop took is settled, else they are lost."""
        with self._changed:
            unsettled = self._unsettled() and not self._over()
            self._settling = False
            self._events[REVOKED] += len(self._holdings)
            if unsettled:
                self._lose()
            self._holdings.clear()

    def lose(self) -> None:
        """Every partition is somebody else's already, and so is what was counted of it and not settled."""
        with self._changed:
            self._settling = False
            if self._holdings:
                self._lose()

    def _lose(self) -> None:
        self._lost = True
        self._events[LOST] += len(self._holdings)
        self._holdings.clear()
        self._queue.clear()
        self._answer(given=False)
        self._changed.notify_all()

    def _answer(self, *, given: bool) -> None:
        if self._commit and self._commit.answer is None:
            self._commit.answer = given

    def refresh(self, look: Callable[[Holding], tuple[int, int] | None]) -> int:
        """Note end and next offset of every placed partition, as `look` tells them; how much is unread."""
        with self._changed:
            for holding in self._placed():
                if seen := look(holding):
                    holding.end = max(seen[0], holding.position)
                    holding.reached = seen[1]
            return sum(holding.unread for holding in self._placed())

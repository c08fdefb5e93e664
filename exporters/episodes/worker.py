"""A thread that tells one receiver, and goes on trying while it cannot be told."""

from __future__ import annotations

import random
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING

import structlog

from exporters.episodes.receiver import ReceiverError

if TYPE_CHECKING:
    from collections.abc import Callable

# How long a stop waits for what is not yet said, and then for the thread; one that is still connecting ends by
# itself (seconds).
LAST_CALL = 2.0
LAST_JOIN = 1.0
# The most that a receiver's Retry-After is followed (seconds): a mistaken one must not silence us for a day.
LONGEST_WAIT = 900.0


@dataclass(frozen=True)
class Pace:
    """How long to wait between tries: `first` seconds, then doubled up to `most`, all spread by half."""

    first: float = 1.0
    most: float = 60.0
    jitter: Callable[[], float] = random.random

    def pause(self, failures: int, asked: float = 0.0) -> float:
        """After so many failures in a row; never less than the receiver has `asked` for.

        >>> [Pace(jitter=lambda: 0.5).pause(failures) for failures in (1, 2, 3, 99)]
        [1.0, 2.0, 4.0, 60.0]
        """
        wait = min(self.most, self.first * 2.0 ** min(failures - 1, 32))
        return max(wait * (0.5 + self.jitter()), min(asked, LONGEST_WAIT))


class Worker:
    """Calls `step` in a daemon thread: when woken, and as long after the last call as that has said.

    `step` says in how many seconds it wants to be called again, None for not before it is woken. Whatever it
    raises is counted, said once in the log, and it is called again at its `pace`, woken or not.
    """

    def __init__(self, name: str, step: Callable[[], float | None], pace: Pace) -> None:
        self.failed = 0
        self._name = name
        self._step = step
        self._pace = pace
        self._in_a_row = 0
        self._said = ""
        self._woken = False
        self._busy = False
        self._closing = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name=f"leadline-{name}", daemon=True)

    def start(self) -> None:
        """Begin; what was asked for before is done now."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to do. Returns at once; may be called from any thread."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def finish(self, patience: float) -> None:
        """Have it end once nothing is left to do, or after `patience` seconds; a failing receiver gets none."""
        with self._changed:
            if self._thread.is_alive():
                self._changed.wait_for(self._at_rest, patience)
            self._closing = True
            self._changed.notify_all()

    def join(self, patience: float = LAST_JOIN) -> None:
        """Wait so long for its end, after `finish`."""
        if self._thread.is_alive():
            self._thread.join(patience)

    def turn(self) -> float | None:
        """One call of `step`, and how long to wait then. Raises nothing."""
        try:
            wait = self._step()
        except ReceiverError as error:
            return self._failure(str(error), error.after)
        except Exception as error:  # noqa: BLE001 - the top of a thread that must not die, nor take the agent along
            return self._failure(f"{type(error).__name__} in the agent itself: please report it", 0.0)
        if self._said:
            structlog.get_logger().info("episodes_told_again", receiver=self._name)
        self._in_a_row, self._said = 0, ""
        return wait

    def _failure(self, problem: str, asked: float) -> float:
        self.failed += 1
        self._in_a_row += 1
        # Once, not with every try of a night; and not of a connection that we cut ourselves.
        if problem != self._said and not self._closing:
            self._said = problem
            structlog.get_logger().warning(
                "episodes_not_told", receiver=self._name, problem=problem, meaning="it is tried again"
            )
        return self._pace.pause(self._in_a_row, asked)

    def _at_rest(self) -> bool:
        return self._in_a_row > 0 or not (self._busy or self._woken)

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._closing:
                    return
                self._woken, self._busy = False, True
            wait = self.turn()
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closing or (self._woken and not self._in_a_row), wait)

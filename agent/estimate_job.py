"""Estimates made beside the loop: one window after another, every so often, in a thread of their own.

Whatever an estimate does - raise, take long, never come back - records are scored as before, and it is counted.
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import structlog

from agent.estimate_failures import NO_FAILURES, Complaints, Failure, with_failure
from agent.report import Estimation, WindowEstimate
from agent.schedule import Schedule

if TYPE_CHECKING:
    from threading import Event

    from agent.loop import Clocks
    from agent.report import DropEstimate
    from agent.schedule import Trouble
    from agent.window_contents import EndedWindow, Estimate

NEVER = float("nan")
# How long the end of a file waits for its last windows, and the end of the agent for an estimate that is running.
PATIENCE = 30.0
GRACE = 2.0
MOMENT = 0.05


class EstimateJob:
    """Estimates the windows it is offered, at once when the first one comes and then every `every` seconds.

    A context: its threads live within it. Offering and taking are for the loop's thread and cost microseconds.
    """

    def __init__(self, estimate: Estimate, every: float, clocks: Clocks, patience: float = PATIENCE) -> None:
        self._estimate = estimate
        self._clocks = clocks
        self._patience = patience
        self._give_up: float | None = None
        self._closing = False
        self._schedule = Schedule(self.run_pass, every, self._trouble)
        # Held for a few assignments only; what it guards is written by the loop, the job and the scheduler.
        self._lock = Lock()
        self._offered: dict[tuple[str, str], EndedWindow] = {}
        self._known: dict[tuple[str, str], tuple[int, int]] = {}
        self._made: list[WindowEstimate] = []
        self._latest = Estimation(failures=NO_FAILURES)
        self._complaints = Complaints()

    def __enter__(self) -> Self:
        self._schedule.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        if not self._schedule.close(GRACE):
            structlog.get_logger().warning("estimate_abandoned", running_since=self.latest.running_since)

    @property
    def latest(self) -> Estimation:
        """The newest snapshot; reading it takes no lock."""
        return self._latest

    def offer(self, windows: tuple[EndedWindow, ...]) -> None:
        """Have these windows estimated. One with the same end and number of items as before is not done again."""
        sizes = {each.key: (each.end, each.items) for each in windows}
        with self._lock:
            new = {each.key: each for each in windows if self._known.get(each.key) != sizes[each.key]}
            self._offered.update(new)
        if new:
            self._schedule.begin()

    def change(self, estimate: Estimate, every: float) -> None:
        """Estimate in this way, and so often, from the next window on."""
        self._estimate = estimate
        self._schedule.change(every)

    def take(self) -> list[WindowEstimate]:
        """The estimates made since the last call, in the order they were made."""
        with self._lock:
            made, self._made = self._made, []
        return made

    def of(self, window: EndedWindow) -> DropEstimate | None:
        """The estimate of this window, made in the caller's thread; None, and counted, if it broke."""
        try:
            return self._estimate(window.merged())
        except Exception as error:  # noqa: BLE001 - as in the job: records must go on
            with self._lock:
                self._latest = replace(
                    self._latest, failures=with_failure(self._latest.failures, Failure.of(error))
                )
            return None

    def unfinished(self, stop: Event) -> bool:
        """Wait a moment for what was offered last; False once that is done, takes too long, or `stop` is set."""
        if not self._busy() or stop.is_set():
            return False
        if self._give_up is None:
            self._give_up = self._clocks.monotonic() + self._patience
            self._schedule.once_more()
        return self._clocks.monotonic() < self._give_up and not stop.wait(MOMENT)

    def run_pass(self) -> None:
        """Estimate what is on offer now, in this thread. What is offered meanwhile under new names has to wait."""
        with self._lock:
            keys = sorted(self._offered)
        for key in keys:
            if not self._closing:
                self._next(key)

    def _busy(self) -> bool:
        with self._lock:
            return bool(self._offered) or not isnan(self._latest.running_since)

    def _next(self, key: tuple[str, str]) -> None:
        """Estimate the newest window of this slice and name, if it is still on offer."""
        with self._lock:
            window = self._offered.pop(key, None)
            if window is None:
                return
            self._known[key] = window.end, window.items
            self._latest = replace(self._latest, running_since=self._clocks.epoch())
        begun = self._clocks.monotonic()
        made: WindowEstimate | None = None
        failure: Failure | None = None
        try:
            estimate = self._estimate(window.merged())
            made = WindowEstimate(*key, window.end, self._clocks.epoch(), estimate)
            self._complaints.settle(key)
        except Exception as error:  # noqa: BLE001 - one slice's estimate must not cost the others theirs
            failure = Failure.of(error)
            self._complaints.add(key, error)
        finally:
            self._settle(key, made, failure, self._clocks.monotonic() - begun)

    def _settle(
        self, key: tuple[str, str], made: WindowEstimate | None, failure: Failure | None, seconds: float
    ) -> None:
        """One new snapshot for the end of one window: its estimate, or none where it broke, and the counts."""
        with self._lock:
            latest = self._latest
            success = {**latest.last_success} | ({key[0]: made.time} if made else {})
            self._latest = replace(
                latest.with_estimate(key, made),
                failures=with_failure(latest.failures, failure) if failure else latest.failures,
                seconds=latest.seconds.observe(seconds),
                running_since=NEVER,
                last_success=MappingProxyType(success),
            )
            if made is not None:
                self._made.append(made)

    def _trouble(self, trouble: Trouble) -> None:
        with self._lock:
            latest = self._latest
            if trouble == "missed":
                self._latest = replace(latest, missed=latest.missed + 1)
            else:
                self._latest = replace(latest, failures=with_failure(latest.failures, Failure.ERROR))

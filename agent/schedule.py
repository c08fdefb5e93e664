"""A function called every so often beside the loop: the only module that knows APScheduler.

Its defaults would skip a late call in silence, keep the process alive until a hung call ends, and log through
the standard library. Here a late call is made late, calls that could not be made are told to `on_trouble`, and
everything runs in daemon threads, so that nothing of this can keep the process from ending.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
)
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

# Due while an earlier call was still running; or raised.
Trouble = Literal["missed", "error"]
REPEATED = "repeated"


class Schedule:
    """Calls `action` at once when `begin` is called, and then every `seconds`; never twice at the same time.

    `on_trouble` is called from the scheduler's threads. Everything else is for one thread.
    """

    def __init__(self, action: Callable[[], None], seconds: float, on_trouble: Callable[[Trouble], None]) -> None:
        # Without a handler of its own its log would go to standard error, among lines of JSON.
        logging.getLogger("apscheduler").addHandler(logging.NullHandler())
        self._action = action
        self._seconds = seconds
        self._on_trouble = on_trouble
        self._begun = False
        self._worker = DaemonExecutor()
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            daemon=True,
            jobstores={"default": MemoryJobStore()},
            executors={"default": self._worker},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )
        self._scheduler.add_listener(self._tell, EVENT_JOB_MISSED | EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES)

    def start(self) -> None:
        """Start the threads, now rather than when the first call is due: a machine may have none to give."""
        self._scheduler.start()

    def begin(self) -> None:
        """Make the first call now and the others after it. Does nothing from the second time on."""
        if self._begun:
            return
        self._begun = True
        now = datetime.now(UTC)
        self._scheduler.add_job(self._action, "interval", id=REPEATED, seconds=self._seconds, next_run_time=now)

    def change(self, seconds: float) -> None:
        """Call every so many seconds from now on."""
        self._seconds = seconds
        if self._begun:
            self._scheduler.reschedule_job(REPEATED, trigger="interval", seconds=seconds)

    def once_more(self) -> None:
        """Make one call now, or as soon as the one that is running has ended."""
        self._scheduler.add_job(self._action)

    def close(self, grace: float) -> bool:
        """Make no more calls, and wait `grace` seconds for a running one; whether none is left."""
        self._scheduler.shutdown(wait=False)  # waiting there would have no limit
        return self._worker.ended(grace)

    def _tell(self, event: Any) -> None:  # noqa: ANN401 - APScheduler has no types
        self._on_trouble("error" if event.code == EVENT_JOB_ERROR else "missed")


class DaemonExecutor(BaseExecutor):  # type: ignore[misc] # APScheduler ships no types
    """Runs jobs one after another in a daemon thread; the pools of the standard library are joined at exit."""

    def __init__(self) -> None:
        super().__init__()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="leadline-estimates", daemon=True)

    def start(self, scheduler: BackgroundScheduler, alias: str) -> None:
        """Start the thread; called by the scheduler."""
        super().start(scheduler, alias)
        self._thread.start()

    def shutdown(self, wait: bool = True) -> None:  # noqa: FBT001, FBT002 - APScheduler's signature
        """Ask the thread to end after what it is at; called by the scheduler."""
        del wait
        self._work.put(None)

    def ended(self, grace: float) -> bool:
        """Wait at most `grace` seconds for the thread; whether it has ended."""
        self._thread.join(grace)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while work := self._work.get():
            work()

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:  # noqa: ANN401 - as above
        """Called by the scheduler with its lock held."""

        def work() -> None:
            self._run_job_success(job.id, run_job(job, "default", run_times, self._logger.name))

        self._work.put(work)

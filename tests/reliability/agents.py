"""The real agent as a process of its own, started, watched and ended by a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.reliability.scrapes import IN_FLIGHT, PROCESSED, Scraper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.reliability.scrapes import Scrape

STARTS_WITHIN = 60.0


def wait_until(reached: Callable[[], Any], seconds: float, what: str = "") -> None:
    """Look until this holds; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or reached}"
        time.sleep(0.05)


@dataclass
class Agent:
    """`leadline run CONFIG`, which writes its log to `log`; scraped all the time once it has started."""

    config: Path
    log: Path
    process: subprocess.Popen[bytes]
    scraper: Scraper | None = None

    @classmethod
    def start(cls, config: Path, *arguments: object, wait: bool = True) -> Self:
        """Start it, and wait until it says that it has."""
        script = Path(sys.executable).with_name("leadline")
        number = len(list(config.parent.glob(f"{config.stem}-*.log")))
        log = config.with_name(f"{config.stem}-{number}.log")
        with log.open("wb") as err, log.with_suffix(".out").open("wb") as out:
            process = subprocess.Popen(
                [script, "run", config, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"},
            )
        agent = cls(config, log, process)
        if wait:
            try:
                agent.scrape()
            except BaseException:
                agent.kill()
                raise
        return agent

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its structured log so far."""
        whole = self.log.read_bytes().splitlines(keepends=True)
        return [json.loads(line) for line in whole if line.startswith(b"{") and line.endswith(b"\n")]

    @property
    def complaint(self) -> str:
        """What it said for people, beside the structured log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(line for line in text.splitlines() if not line.startswith("{"))

    def said(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        return [line for line in self.lines if line.get("event") == event]

    def scrape(self) -> None:
        """Wait until it has started, and scrape it from then on."""
        wait_until(lambda: self.said("started") or self.process.poll() is not None, STARTS_WITHIN, "it starts")
        self.check_running()
        self.scraper = Scraper(str(self.said("started")[0]["metrics"]))
        self.scraper.start()

    @property
    def metrics(self) -> Scraper:
        """Its /metrics."""
        assert self.scraper is not None, "it has not started"
        return self.scraper

    def wait_for(self, processed: int, seconds: float = 90.0) -> None:
        """Until it has counted so many records since its start."""

        def reached() -> bool:
            self.check_running()
            return self.metrics.total(PROCESSED) >= processed

        wait_until(reached, seconds, f"{processed} records are counted")

    def quiet(self) -> Scrape:
        """A scrape in which nothing is in flight; the source must have been read to its end."""
        wait_until(lambda: self.metrics.total(IN_FLIGHT) == 0, 10, "nothing is in flight")
        return self.metrics.last

    def check_running(self) -> None:
        """AssertionError if it has ended by itself."""
        assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.tail()}"

    def tail(self) -> str:
        """The end of its log, for a message."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def kill(self) -> None:
        """End it as a power cut would."""
        self._ended(signal.SIGKILL)

    def stop(self, within: float = 10.0) -> float:
        """SIGTERM; it must end well within so many seconds. How many it took."""
        began = time.monotonic()
        self._ended(signal.SIGTERM, within)
        assert self.process.returncode == 0, f"it ended with {self.process.returncode}: {self.tail()}"
        return time.monotonic() - began

    def ended(self, within: float = 60.0) -> int:
        """Wait for it to end by itself; its exit code."""
        try:
            self.process.wait(within)
        finally:
            self._ended(signal.SIGKILL)
        return self.process.returncode

    def _ended(self, number: signal.Signals, within: float = 10.0) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(within)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(
                    f"it did not end within {within:g} s of {number.name}: {self.tail()}"
                ) from None
            finally:
                self._close()
        self._close()

    def _close(self) -> None:
        if self.scraper is not None:
            self.scraper.close()


@contextmanager
def running(config: Path, *arguments: object) -> Iterator[Agent]:
    """An agent that is killed at the end if the test has not ended it; every scrape of it must have balanced."""
    agent = Agent.start(config, *arguments)
    try:
        yield agent
    finally:
        agent.kill()
    agent.metrics.check()

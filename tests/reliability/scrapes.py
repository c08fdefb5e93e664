"""An agent's /metrics, scraped some times a second by a thread, each scrape held to the balance of records."""

from __future__ import annotations

import http.client
import math
import re
import time
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)(?: \S+)?$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Series = tuple[str, frozenset[tuple[str, str]]]

RECEIVED = "leadline_events_received_total"
PROCESSED = "leadline_events_processed_total"
DISCARDED = "leadline_events_discarded_total"
DEAD = "leadline_dead_letters_total"
IN_FLIGHT = "leadline_events_in_flight"


@dataclass(frozen=True)
class Scrape:
    """One scrape: every series with its value, and when (monotonic seconds)."""

    time: float
    values: Mapping[Series, float]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Of a page of metrics."""
        values: dict[Series, float] = {}
        for line in text.splitlines():
            match = LINE.match(line)
            if match and not line.startswith("#"):
                values[match[1], frozenset(LABEL.findall(match[2] or ""))] = float(match[3])
        return cls(time.monotonic(), values)

    def total(self, name: str, **labels: str) -> float:
        """The sum over every series of this name with these labels."""
        wanted = labels.items()
        return sum(value for (found, tags), value in self.values.items() if found == name and wanted <= tags)

    def by(self, name: str, label: str) -> dict[str, float]:
        """The values of this name by one of its labels, those that are not 0."""
        found = {dict(tags)[label]: value for (series, tags), value in self.values.items() if series == name}
        return {key: value for key, value in found.items() if value}

    @property
    def imbalance(self) -> float:
        """Records received and neither counted, given up nor in flight; 0 if all is well."""
        return self.total(RECEIVED) - sum(map(self.total, (PROCESSED, DISCARDED, DEAD, IN_FLIGHT)))

    @property
    def unknown(self) -> list[Series]:
        """Series whose value is not a number."""
        return [series for series, value in self.values.items() if math.isnan(value)]


class Scraper:
    """Scrapes `url` every `every` seconds until it is closed. `faults` says what was wrong with scrapes."""

    def __init__(self, url: str, every: float = 0.2) -> None:
        self.url = urlsplit(url)
        self.count = 0
        self.in_flight_seen = 0.0
        self.faults: list[str] = []
        self._every = every
        self._last: Scrape | None = None
        self._lock = Lock()
        self._stop = Event()
        self._thread = Thread(target=self._run, name=f"scraper {url}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for it."""
        self._stop.set()
        if self._thread.ident:
            self._thread.join()

    def check(self) -> None:
        """AssertionError if any scrape so far was out of balance."""
        assert not self.faults, self.faults[:5]

    def page(self, path: str = "/metrics") -> tuple[int, str]:
        """Status and content of a page of the agent. OSError or HTTPException if it does not answer."""
        connection = http.client.HTTPConnection(self.url.hostname or "", self.url.port, timeout=10)
        try:
            connection.request("GET", path)
            with connection.getresponse() as answer:
                return answer.status, answer.read().decode()
        finally:
            connection.close()

    def now(self) -> Scrape:
        """A scrape of this moment, checked as all others. OSError or HTTPException if it does not answer."""
        with self._lock:
            status, text = self.page()
            scrape = Scrape.of(text)
            self._judge(status, scrape)
            self._last = scrape
            return scrape

    def total(self, name: str, **labels: str) -> float:
        """A value of this moment."""
        return self.now().total(name, **labels)

    @property
    def last(self) -> Scrape:
        """The newest scrape."""
        assert self._last is not None, "it was never scraped"
        return self._last

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self.now()
            except (OSError, http.client.HTTPException):
                continue  # killed, or stopping

    def _judge(self, status: int, scrape: Scrape) -> None:
        self.count += 1
        if status != http.client.OK:
            self.faults.append(f"/metrics answered {status}")
            return
        if scrape.imbalance:
            self.faults.append(f"out of balance by {scrape.imbalance:g} at scrape {self.count}")
        if scrape.unknown:
            self.faults.append(f"not a number: {scrape.unknown[:3]}")
        self.in_flight_seen = max(self.in_flight_seen, scrape.total(IN_FLIGHT))
        before = self._last.values if self._last else {}
        for series, value in scrape.values.items():
            if series[0].endswith(("_total", "_count", "_bucket")) and value < before.get(series, 0.0):
                self.faults.append(f"{series} went back from {before[series]:g} to {value:g}")

"""The agent's own loop with scores that were made before, and where its CPU time goes."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import yaml
from workbench import say

from agent.assembly import assemble
from agent.config import RunConfig, load_config
from agent.garbage import seldom_collected
from agent.loop import Listeners
from agent.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from threading import Event

    from agent.assembly import Agent
    from agent.report import Counts, Report
    from agent.scorer import Scored

READ, DECODE, COUNT, FOLD, REPORT, CLOSE, SAVE, SCORE = (
    "taking from the queue",
    "messages to records",
    "late or not, ledger",
    "records to panes",
    "snapshots for a scrape",
    "closing windows",
    "checkpoints and commits",
    "scoring",
)
THREADS, LOOP = "receiving, in other threads", "the loop itself"
STEPS = (THREADS, READ, DECODE, COUNT, FOLD, REPORT, CLOSE, SAVE, LOOP)
AT_ONCE = 64
POOL = 1024  # texts that are scored before


@dataclass(frozen=True)
class Cost:
    """CPU microseconds a record by step, and records a second of wall-clock time."""

    steps: Mapping[str, float]
    rate: float

    @property
    def total(self) -> float:
        """Of everything that is neither encoding nor scoring."""
        return sum(self.steps.values())


class Stopwatch:
    """CPU seconds of the calling thread by step; what a step inside another takes is not the other's."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._inside = [0.0]

    def timed(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, timed."""

        def run(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever is called
            self._inside.append(0.0)
            started = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                took = time.thread_time() - started
                self.spent[step] += took - self._inside.pop()
                self._inside[-1] += took

        return run

    def part(self, part: Any, **steps: str) -> Timed:  # noqa: ANN401 - any part of the agent
        """This part, its named methods timed."""
        return Timed(part, {method: self.timed(step, getattr(part, method)) for method, step in steps.items()})


class Timed:
    """Stands in front of a part: some methods are others, everything else goes through."""

    def __init__(self, part: Any, methods: Mapping[str, Callable[..., Any]]) -> None:  # noqa: ANN401
        self._part = part
        self.__dict__ |= methods

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._part, name)


@dataclass
class Ready:
    """In place of the scorer: rows that were scored before, in turn. Stops the agent with the last record."""

    scored: Scored
    records: int
    stop: Event
    on_seen: Callable[[int], None]
    seen: int = 0

    def __call__(self, records: Sequence[Record]) -> Scored:
        """One row a record."""
        self.on_seen(self.seen)
        rows = np.arange(self.seen, self.seen + len(records)) % len(self.scored)
        self.seen += len(records)
        if self.seen >= self.records:
            self.stop.set()
        return self.scored.take(rows)  # type: ignore[arg-type]  # an array serves as well


def clocks() -> tuple[float, float, float]:
    """CPU seconds of the process and of this thread, and wall-clock seconds."""
    return time.process_time(), time.thread_time(), time.monotonic()


def scored_of(agent: Agent, texts: Sequence[str]) -> Scored:
    """These texts, encoded and scored."""
    pieces = [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]
    parts = [agent.score([Record(text, text, 0.0) for text in piece]) for piece in pieces]
    return type(parts[0]).joined(parts)


@dataclass
class Bench:
    """A directory with a fitted reference, texts for the records, and the scores of some of them."""

    directory: Path
    texts: Sequence[str]
    scored: Scored | None = None

    def agent(self, source: Mapping[str, Any], stop: Event) -> Agent:
        """An agent with this source and no state of an earlier run, ready to run."""
        for old in self.directory.glob("state.sqlite*"):
            old.unlink()
        config = {
            "reference": "reference",
            "source": dict(source),
            "encoding": {"device": "cpu"},
            "state": {"path": "state.sqlite"},
        }
        path = self.directory / "run.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        agent = assemble(load_config(path, RunConfig), stop)
        self.scored = self.scored or scored_of(agent, self.texts[:POOL])
        gc.collect()  # what an earlier agent left behind is not this one's to look through
        return agent


def cost(
    bench: Bench,
    agent: Agent,
    records: int,
    stop: Event,
    on_seen: Callable[[int], None] = lambda _: None,
) -> Cost:
    """What it costs until so many records were seen. Exits if not every one of them was counted, once."""
    assert bench.scored is not None  # noqa: S101 - whoever made the agent made it
    watch = Stopwatch()
    marks: list[tuple[float, float, float]] = []

    def seen(number: int) -> None:
        if not number:  # from the first record on: until then it was connecting
            watch.spent.clear()
            marks.append(clocks())
        on_seen(number)

    def publish(report: Report) -> None:
        if not report.ready:
            marks.append(clocks())
            complete(report.counts, records)

    ready = Ready(bench.scored, records, stop, seen)
    with seldom_collected():  # as `leadline run` does
        timed_agent(agent, watch, ready).run(Listeners(publish, lambda _: None), stop)
    process, thread, wall = (end - start for start, end in zip(*marks, strict=True))
    spent = watch.spent | {THREADS: process - thread, LOOP: thread - sum(watch.spent.values())}
    found = Cost({step: 1e6 * spent[step] / records for step in STEPS}, records / wall)
    say(f"  {found.total:.1f} µs of CPU time a record, {found.rate:,.0f} records a second")
    return found


def timed_agent(agent: Agent, watch: Stopwatch, score: Callable[[Sequence[Record]], Scored]) -> Agent:
    """The same agent with another scorer, every part of it timed."""
    source, kept = cast("Any", agent.source), cast("Any", agent.state)
    # Nobody else wants to be in between here.
    source._intake = watch.part(source._intake, batch=DECODE)  # noqa: SLF001
    kept._fold = watch.timed(FOLD, kept._fold)  # noqa: SLF001
    state = {"add": COUNT, "receive": COUNT, "delivered": COUNT, "report": REPORT, "close_windows": CLOSE}
    parts: dict[str, Any] = {
        "source": watch.part(source, read=READ, commit=SAVE),
        "score": watch.timed(SCORE, score),
        "state": watch.part(kept, **state, confirm=SAVE),
        "checkpoints": watch.part(agent.checkpoints, save=SAVE),
    }
    return replace(agent, **parts)


def complete(counts: Counts, records: int) -> None:
    """Exit unless the agent has processed every record, and nothing else."""
    if counts.processed != records or not counts.balanced:
        raise SystemExit(f"the agent processed {counts.processed:,} of {records:,} records: {counts}")

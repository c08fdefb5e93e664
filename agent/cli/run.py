"""`leadline run`: the agent."""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import structlog
import typer

from agent.annotation.desk import Annotation
from agent.assembly import assemble
from agent.checkpoints import held_alone
from agent.cli.estimate import facts_of
from agent.cli.outlets import Served, open_letters
from agent.cli.output import JsonFile, write_facts
from agent.cli.receivers import Receivers
from agent.cli.reload import Reloads
from agent.cli.windows import WindowLines
from agent.config import RunConfig, load_config
from agent.garbage import seldom_collected
from agent.logs import configure_logs
from agent.loop import Listeners
from agent.sources.http import HttpSource
from exporters.status.batches import NoBatches, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.assembly import Agent
    from agent.report import Report, WindowEstimate, WindowReport


def run(
    config: Annotated[Path, typer.Argument(help="The run configuration, YAML.")],
    json: JsonFile = None,
) -> None:
    """Run the agent: read records, score them, keep windows, serve metrics. Ends on SIGTERM, or with its file.

    Example: leadline run run.yaml
    """
    checked = load_config(config, RunConfig)
    configure_logs()
    # Asked from the start: a signal that comes while the models are loaded must not end the process.
    with (
        hangups() as asked,
        stopping() as stop,
        held_alone(checked.state.path) if checked.state else nullcontext(),
    ):
        agent = assemble(checked, stop, letters=open_letters(checked))
        with seldom_collected():
            report, closed = run_agent(agent, checked, stop, reread=(config, asked))
    write_facts(json, _facts(report, closed))


@dataclass(frozen=True)
class Moments:
    """Told the address of the pages: when they are served first, and just before they are no longer."""

    started: Callable[[str], None] = lambda _: None
    before_end: Callable[[str], None] = lambda _: None


def run_agent(
    agent: Agent,
    config: RunConfig,
    stop: Event,
    moments: Moments | None = None,
    reread: tuple[Path, Event] | None = None,
) -> tuple[Report, list[WindowReport]]:
    """Run an assembled agent with its exporters, showing each short window as it closes, then its estimate.

    Gives the last snapshot and the last windows. `moments` are told the address of the pages; `reread`
    is which configuration to read again, and what is set when that is asked for.
    """
    log, moments = structlog.get_logger(), moments or Moments()
    latest = Latest(agent.snapshot())
    show = WindowLines(tuple(agent.reference.detectors))
    closed: list[WindowReport] = []

    def on_closed(report: WindowReport) -> None:
        closed.append(report)
        del closed[:-KEPT]
        if report.window == "short":
            show(report)

    def on_estimated(made: WindowEstimate) -> None:
        if made.window == "short":
            show.estimated(made)

    batches = agent.annotation if isinstance(agent.annotation, Annotation) else NoBatches()
    shown = Shown(batches, config.exporters.status.texts)
    with (
        Receivers(config.exporters) as receivers,
        Served(latest, config.exporters.prometheus, shown) as served,
    ):

        def change(new: RunConfig) -> None:
            opened = receivers.opened(new.exporters)
            served.move(new.exporters.prometheus)
            shown.texts = new.exporters.status.texts
            receivers.take_up(new.exporters, opened)
            agent.change(new)

        path, asked = reread or (Path(), Event())
        reloads = Reloads(path, config, change, asked)

        def publish(report: Report) -> None:
            reloads.poll()
            receivers.tell(report)
            told = replace(report, upkeep=reloads.tell(report.upkeep), notified=receivers.notified())
            latest.set(told)

        log.info(
            "started",
            resumed_at=dict(agent.state.positions),
            reference=agent.reference.id,
            metrics=f"{served.url}/metrics",
            **({"intake": agent.source.url} if isinstance(agent.source, HttpSource) else {}),
        )
        moments.started(served.url)
        agent.run(Listeners(publish, on_closed, on_estimated, show.decided), stop)
        moments.before_end(served.url)
    log.info("stopped", **_counts(latest()))
    return latest(), closed


# How many of the last windows `--json` tells about: a bound for an agent that runs for months.
KEPT = 1000


class Latest:
    """The newest snapshot. Swapping one reference is atomic: a scrape sees a whole one."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __call__(self) -> Report:
        """The newest snapshot."""
        return self._report

    def set(self, report: Report) -> None:
        """Put a newer snapshot in its place."""
        self._report = report


def stopping() -> AbstractContextManager[Event]:
    """An event that SIGTERM and SIGINT set, so that the loop can finish its batch and its checkpoint."""
    return _set_by(signal.SIGTERM, signal.SIGINT)


def hangups() -> AbstractContextManager[Event]:
    """An event that SIGHUP sets: the configuration is to be read again."""
    return _set_by(signal.SIGHUP)


@contextmanager
def _set_by(*signals: signal.Signals) -> Iterator[Event]:
    event = Event()
    before = {number: signal.signal(number, _setter(event)) for number in signals}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _setter(stop: Event) -> Callable[[int, object], None]:
    def handle(number: int, frame: object) -> None:
        del number, frame
        stop.set()

    return handle


def _counts(report: Report) -> dict[str, Any]:
    counts = report.counts
    return {
        "received": sum(counts.received.values()),
        "processed": counts.processed,
        "discarded": {reason: count for reason, count in counts.discarded.items() if count},
        "dead_lettered": {reason: count for reason, count in counts.dead_lettered.items() if count},
        "in_flight": counts.in_flight,
        "truncated": counts.truncated,
    }


def _facts(report: Report, closed: list[WindowReport]) -> dict[str, Any]:
    return {
        "reference": report.info.reference_id,
        "events": _counts(report),
        "windows": [asdict(window) for window in closed],
        # Without when they were made: the same stream gives the same facts.
        "episodes": [
            {key: value for key, value in asdict(episode).items() if key not in {"fired", "resolved"}}
            for episode in report.alerts.episodes
        ],
        "estimates": [
            {"slice": made.slice, "window": made.window, "end": made.end, **facts_of(made.estimate)}
            for made in report.estimation.estimates
        ],
    }

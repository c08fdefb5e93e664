"""How the agent itself is doing, in words: facts to look up, and what a person should look into."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from exporters.status.facts import plain
from exporters.status.format import age, count, lasting, percent, since

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agent.report import Report

# An estimate takes seconds; one that takes this long hangs.
HANGS = 300.0
# So many of a kind are named, the largest first.
MOST = 5


def worries(report: Report) -> tuple[str, ...]:
    """What is wrong with the agent itself, each in a sentence; most of it costs nothing yet."""
    return (*_state(report), *_estimates(report), *_told(report))


def _state(report: Report) -> Iterator[str]:
    upkeep = report.upkeep
    if not report.counts.balanced:
        yield "Records were lost or counted twice: that is a bug in Leadline."
    if upkeep.checkpoint_failures:
        last = age(upkeep.last_checkpoint, report.time)
        saves = count(upkeep.checkpoint_failures, "save")
        yield f"{saves} of the state failed since the start; the last good one: {last}."
    # Whoever names a new reference has meant to.
    faults = {reason: states for reason, states in upkeep.quarantined.items() if reason != "other_owner"}
    lost = sum(faults.values())
    if lost:
        yield f"{count(lost, 'state')} could not be used and was put aside ({named(faults)})."
    if not upkeep.reload_ok:
        yield "The newest configuration was refused: the one before it is in use. The log says why."


def _estimates(report: Report) -> Iterator[str]:
    estimation = report.estimation
    broken = sum(estimation.failures.values())
    if broken:
        reasons = named(estimation.failures)
        yield f"{count(broken, 'estimate')} broke since the start ({reasons}). The log says why."
    running = report.time - estimation.running_since
    if running > HANGS:
        yield f"An estimate has been running for {lasting(running)}: it hangs."
    if report.alerts.batch_failures:
        times = count(report.alerts.batch_failures, "time")
        yield f"Writing an annotation batch failed {times} since the start; it is tried again."


def _told(report: Report) -> Iterator[str]:
    for name, notified in report.notified.items():
        if notified.dropped:
            yield f"{count(notified.dropped, 'message')} to {plain(name)} dropped: too many waited."
        if notified.waiting and notified.failed:
            waiting, tries = count(notified.waiting, "message"), "try" if notified.failed == 1 else "tries"
            yield f"{waiting} to {plain(name)} not yet sent; {notified.failed:,} {tries} failed since the start."


def facts(report: Report) -> tuple[tuple[str, str], ...]:
    """Name and value of everything worth looking up."""
    info, counts, upkeep, estimation = report.info, report.counts, report.upkeep, report.estimation
    newest = max((time for time in estimation.last_success.values() if isfinite(time)), default=float("nan"))
    lag = report.source.lag
    waiting = {f"{topic}/{partition}": records for (topic, partition), records in lag.items()}
    rows = [
        ("Model", plain(info.model)),
        ("Reference", plain(info.reference_id)),
        ("Encoder", f"{plain(info.encoder)} on {plain(info.provider)}"),
        ("Accuracy on its source", percent(report.shape.accuracy)),
        ("Version", plain(report.version)),
        ("Received", f"{sum(counts.received.values()):,}{_of(counts.received)}"),
        ("Processed", f"{counts.processed:,}"),
        ("In flight", f"{counts.in_flight:,}"),
        ("Discarded", f"{sum(counts.discarded.values()):,}{_of(counts.discarded)}"),
        ("Dead letters", f"{sum(counts.dead_lettered.values()):,}{_of(counts.dead_lettered)}"),
        ("Labels received", f"{counts.labels:,}"),
        ("Waiting at the source", f"{sum(lag.values()):,}{_of(waiting)}" if lag else "not told by this source"),
        (
            "State saved",
            since(upkeep.last_checkpoint, report.time) if isfinite(upkeep.last_checkpoint) else "never",
        ),
        ("Estimate made", since(newest, report.time) if isfinite(newest) else "never"),
        ("Configuration", _configuration(report)),
    ]
    rows += [
        (f"Told {plain(name)}", f"{each.sent:,} sent, {each.failed:,} failed, {each.waiting:,} waiting")
        for name, each in report.notified.items()
    ]
    return tuple(rows)


def _configuration(report: Report) -> str:
    upkeep = report.upkeep
    if not upkeep.reload_ok:
        return "the newest was refused"
    if not isfinite(upkeep.reloaded):
        return "as at the start"
    return f"taken up {since(upkeep.reloaded, report.time)}"


def _of(counts: Mapping[str, int]) -> str:
    told = named(counts)
    return f" ({told})" if told else ""


def named(counts: Mapping[str, int]) -> str:
    """The largest counts by name.

    >>> named({"late": 3, "not_json": 0, "tombstone": 1200})
    'tombstone 1,200, late 3'
    """
    largest = sorted(
        ((count, name) for name, count in counts.items() if count), key=lambda each: (-each[0], each[1])
    )
    told = [f"{plain(name)} {count:,}" for count, name in largest[:MOST]]
    return ", ".join([*told, f"{len(largest) - MOST} more"] if len(largest) > MOST else told)

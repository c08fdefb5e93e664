"""Left running under steady traffic, the agent takes no more of the machine than after its first minute."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.reliability.agents import running
from tests.reliability.scale import FINDINGS, MINUTES, chance
from tests.reliability.scrapes import DISCARDED, PROCESSED
from tests.reliability.traffic import Log, Traffic, flowing, hours_ago

if TYPE_CHECKING:
    from tests.reliability.stage import Stage

SHORT_SECONDS = 45.0
# Of the time of a long run; the other tests take about as much together.
SHARE = 0.5
RATE = 300.0
MEBIBYTE = 1 << 20
# What a Python process may gain in its first minutes without that being a leak.
SLACK = 24 * MEBIBYTE
SHOWN = 20


@dataclass(frozen=True)
class Look:
    """What the process holds at one moment; `time` is in seconds since the first look."""

    time: float
    resident: int
    descriptors: int
    threads: int

    @classmethod
    def at(cls, pid: int, moment: float) -> Look:
        """Now."""
        place = Path(f"/proc/{pid}")
        facts = dict(line.split(":", 1) for line in (place / "status").read_text(encoding="ascii").splitlines())
        descriptors = len(list((place / "fd").iterdir()))
        return cls(moment, int(facts["VmRSS"].split()[0]) * 1024, descriptors, int(facts["Threads"]))


def test_memory_descriptors_and_threads_stay_flat(stage: Stage) -> None:
    """After a third of the time nothing grows any more: memory within some MiB, descriptors and threads at all."""
    seconds = max(SHORT_SECONDS, 60 * MINUTES * SHARE)
    # Event time runs so fast that panes are sealed, thinned and forgotten from the first seconds on.
    windows = {"pane": "60s", "short": "5m", "long": "15m", "min_items": 20, "lateness": "10m"}
    # And as many ids are remembered as come within seconds.
    config = stage.config(windows=windows, estimate__every="5s", source__kafka__remember=3000)
    traffic = Traffic(chance("soak"), hours_ago(24 * 300), step=0.5)
    with running(config) as agent:
        with flowing(stage.broker, stage.topic, traffic, RATE):
            agent.wait_for(1)
            looks = _watch(agent.process.pid, seconds)
        stage.wait_until_settled()
        last = agent.quiet()
        agent.stop()
    log = Log.of(stage.broker, stage.topic)
    assert last.total(PROCESSED) == len(log.records)
    assert last.total(DISCARDED, reason="duplicate") == log.twice
    oldest = min(start for _, start in stage.panes())
    stage.check_panes([record for record in log.records if record.time >= oldest])
    _report(looks, len(log.records), agent.metrics.count)
    _check_flat(looks)


def _watch(pid: int, seconds: float) -> list[Look]:
    began = time.monotonic()
    looks = []
    while (now := time.monotonic() - began) < seconds:
        looks.append(Look.at(pid, now))
        time.sleep(max(0.5, seconds / 1000))
    return looks


def _check_flat(looks: list[Look]) -> None:
    third = len(looks) // 3
    warm, end = looks[third : 2 * third], looks[2 * third :]
    for name in ("descriptors", "threads"):
        before, after = (max(getattr(look, name) for look in part) for part in (warm, end))
        assert after <= before + 1, f"{name} grew from {before} to {after}"
    grown = median(look.resident for look in end) - median(look.resident for look in warm)
    assert grown < SLACK, f"resident memory grew by {grown / MEBIBYTE:.0f} MiB"


def _report(looks: list[Look], records: int, scrapes: int) -> None:
    FINDINGS.say(
        f"soak: {looks[-1].time:.0f} s, {records} records exact, {scrapes} scrapes balanced; s, MiB, fds, threads:"
    )
    for look in looks[:: max(1, len(looks) // SHOWN)]:
        FINDINGS.say(f"  {look.time:7.0f} {look.resident / MEBIBYTE:7.1f} {look.descriptors:5d} {look.threads:5d}")

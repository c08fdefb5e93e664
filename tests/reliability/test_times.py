"""Records that come twice, out of order, late, or from a clock that jumped: each is counted as documented."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.records import CLOCK_SKEW
from agent.slices import UNTAGGED
from tests.reliability.agents import running
from tests.reliability.oracle import same_ratios
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.scrapes import DISCARDED, PROCESSED
from tests.reliability.stage import letters
from tests.reliability.traffic import Traffic, body_of, hours_ago, produce

if TYPE_CHECKING:
    from agent.records import Record
    from tests.reliability.oracle import Oracle
    from tests.reliability.scrapes import Scrape
    from tests.reliability.stage import Stage

PANE, SHORT, LONG, LATENESS = 60, 300, 1800, 120
NUMBER = 1500
AHEAD = 3600.0


@dataclass
class Sorted:
    """What the documented rules make of records in the order in which they came, in a dozen lines of their own."""

    counted: list[Record] = field(default_factory=list)
    discarded: Counter[str] = field(default_factory=Counter)
    newest: float = float("-inf")
    seen: set[str] = field(default_factory=set)

    def take(self, record: Record) -> None:
        """The next one."""
        if record.time > time.time() + CLOCK_SKEW:
            self.discarded["future_time"] += 1
        elif record.id in self.seen:
            self.discarded["duplicate"] += 1
        elif record.time < (self.newest - LATENESS) // PANE * PANE:
            self.seen.add(record.id)
            self.discarded["late"] += 1
        else:
            self.seen.add(record.id)
            self.newest = max(self.newest, record.time)
            self.counted.append(record)


def _stream(name: str) -> list[Record]:
    """In order for the most part; else a little early or late, very late, twice, or an hour back or ahead."""
    moments = chance(name)
    traffic = Traffic(moments, hours_ago(3), step=2.0)
    stream: list[Record] = []
    for _ in range(NUMBER):
        now = traffic.start + len(traffic.made) * traffic.step
        match moments.choices(["in order", "shuffled", "late", "twice", "back", "ahead"], [70, 15, 5, 5, 3, 2])[0]:
            case "twice" if stream:
                stream.append(moments.choice(stream))
            case "shuffled":
                stream.append(traffic.record(time=now + moments.uniform(-60, 60)))
            case "late":
                stream.append(traffic.record(time=now - moments.uniform(60, 600)))
            case "back":
                stream.append(traffic.record(time=now - AHEAD))
            case "ahead":
                stream.append(traffic.record(time=time.time() + AHEAD))
            case _:
                stream.append(traffic.record())
    return stream


def test_times_that_jump_are_counted_as_documented(stage: Stage) -> None:
    """Every discard has its reason, panes and windows hold just the rest, and no metric is ever not a number."""
    for number in range(times(1, 0.2)):
        _one(stage, number)


def _one(stage: Stage, number: int) -> None:
    name, here = f"run{number}", stage.on(f"{stage.topic}-{number}")
    stream = _stream(f"times {number}")
    produce(here.broker, here.topic, map(body_of, stream), chance("one partition"))
    expected = Sorted()
    for record in stream:
        expected.take(record)
    windows = {"pane": PANE, "short": SHORT, "long": LONG, "lateness": LATENESS, "min_items": 20}
    # Without a place for dead letters everything unusable is discarded under its reason.
    config = here.config(name, windows=windows, dead_letters=None)
    facts = stage.root / f"{name}.json"
    with running(config, "--json", facts) as agent:
        here.wait_until_settled()
        last = agent.quiet()
        agent.stop()
    assert last.by(DISCARDED, "reason") == dict(expected.discarded)
    assert last.total(PROCESSED) == len(expected.counted)
    oldest = min(start for _, start in here.panes(name))
    kept = [record for record in expected.counted if record.time >= oldest]
    here.check_panes(kept, name)
    told = json.loads(facts.read_text(encoding="utf-8"))["windows"]
    checked = _check_windows(stage.oracle, told, expected.counted)
    _check_metrics(last, told)
    FINDINGS.say(f"times: {len(stream)} records, {dict(expected.discarded)}; {checked} windows as the scores say")
    assert not letters([stage.root / f"{name}.dead.jsonl"])


def _check_windows(oracle: Oracle, told: list[dict[str, Any]], records: list[Record]) -> int:
    """Each closed window of enough items against the scores of the records in it; how many were checked."""
    by_slice: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_slice[record.slice or UNTAGGED].append(record)
    checked = 0
    for window in told:
        inside = [record for record in by_slice[window["slice"]] if window["start"] <= record.time < window["end"]]
        assert window["items"] == len(inside), window
        if window["enough"]:
            assert same_ratios(window, oracle.ratios(inside)), window
            checked += 1
    assert checked > 20
    return checked


def _check_metrics(scrape: Scrape, told: list[dict[str, Any]]) -> None:
    """The last windows on /metrics are the newest that were closed."""
    newest = {(window["slice"], window["window"]): window for window in told if window["enough"]}
    assert newest
    for (name, kind), window in newest.items():
        labels = {"slice": name, "window": kind}
        if scrape.total("leadline_window_end_timestamp_seconds", **labels) != window["end"]:
            continue  # closed after the scrape
        assert scrape.total("leadline_depth_mean", **labels) == window["depth_mean"]
        assert scrape.total("leadline_depth_q", **labels) == window["q"]
        for detector, ratio in window["ood_ratio"].items():
            assert scrape.total("leadline_ood_ratio", detector=detector, **labels) == ratio

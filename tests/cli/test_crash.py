"""Killed, stopped and started again: the state is what one uninterrupted run would have left, exactly."""

from __future__ import annotations

import json
import random
import re
import resource
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.cli.workbench import counted, finished, leadline, position, records, start, stream

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.cli.workbench import Bench

ITEMS = 400
BATCH = 16
KILLS = 3
EVENT_COUNT = re.compile(r"^leadline_events_(received_total|processed_total|discarded_total|in_flight)\S* (\S+)$")


@dataclass(frozen=True)
class Long:
    """A stream of some seconds, and what an uninterrupted run over it counts."""

    events: Path
    counted: dict[tuple[str, int], tuple[object, ...]]


@pytest.fixture(scope="module")
def long(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Long:
    """Tweets of two slices over 27 minutes, some unusable, with the state of one whole run in big batches."""
    root = tmp_path_factory.mktemp("long")
    lines: list[object] = []
    for row, line in enumerate(records(bench.texts["tweets"][600 : 600 + ITEMS], seconds=4)):
        lines.append(line | {"slice": "odd" if row % 2 else "even"})
        if row % 25 == 0:
            lines.append({"text": ""})
    events = stream(root / "events.jsonl", lines)
    state = root / "state.sqlite"
    done = leadline("run", bench.run_config(root / "run.yaml", events, state__path=state))
    assert done.code == 0, done.err
    found = counted(state)
    assert sum(int(str(items)) for items, *_ in found.values()) == ITEMS
    return Long(events, found)


def _config(bench: Bench, long: Long, root: Path, **changes: object) -> Path:
    return bench.run_config(
        root / "run.yaml",
        long.events,
        state={"path": str(root / "state.sqlite"), "every": "0.1s"},
        encoding__batch=BATCH,
        **changes,
    )


def _metrics_address(process: subprocess.Popen[str]) -> str:
    """Wait until the agent has started."""
    assert process.stderr is not None
    started = json.loads(process.stderr.readline())
    assert started["event"] == "started"
    return str(started["metrics"])


def test_killed_at_random_it_counts_every_record_once(bench: Bench, long: Long, tmp_path: Path) -> None:
    """After SIGKILLs at random moments the panes hold the items, classes, p-values and ids of one whole run."""
    chance = random.Random(20)  # noqa: S311 - moments to kill at, not secrets
    slow, seen = _config(bench, long, tmp_path, source__file__rate=80), []
    for _ in range(KILLS):
        with start("run", slow) as process:
            _metrics_address(process)
            time.sleep(chance.uniform(0.4, 1.2))
            process.kill()
            process.communicate()
        seen.append(position(tmp_path / "state.sqlite"))
    assert seen == sorted(seen)
    assert 0 < seen[-1] < ITEMS, "the kills did not fall into the stream"
    done = leadline("run", _config(bench, long, tmp_path))
    assert done.code == 0, done.err
    assert counted(tmp_path / "state.sqlite") == long.counted


@dataclass
class Watched:
    """What was seen of an agent from outside while it ran, until SIGTERM."""

    root: Path
    ready: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    scrapes: list[dict[str, float]] = field(default_factory=list)
    code: int | None = None
    seconds_to_stop: float = 0.0
    stopped: dict[str, object] = field(default_factory=dict)


def _status(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as response:  # noqa: S310 - the agent's own pages
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, ""


def _scrape(address: str) -> dict[str, float]:
    counts = {"received_total": 0.0, "processed_total": 0.0, "discarded_total": 0.0, "in_flight": 0.0}
    for line in _status(address)[1].splitlines():
        if match := EVENT_COUNT.match(line):
            counts[match[1]] += float(match[2])
    return counts


@pytest.fixture(scope="module")
def watched(bench: Bench, long: Long, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """An agent under load, scraped again and again, then told to stop with SIGTERM."""
    seen = Watched(tmp_path_factory.mktemp("watched"))
    process = start("run", _config(bench, long, seen.root, source__file__rate=100))
    metrics = _metrics_address(process)
    pages = metrics.removesuffix("/metrics")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (seen.scrapes and seen.scrapes[-1]["processed_total"] >= 100):
        seen.ready.append(_status(f"{pages}/readyz")[0])
        seen.live.append(_status(f"{pages}/livez")[0])
        seen.scrapes.append(_scrape(metrics))
    before = time.monotonic()
    process.terminate()
    done = finished(process)
    seen.seconds_to_stop = time.monotonic() - before
    seen.code = done.code
    seen.stopped = done.log[-1]
    return seen


def test_every_scrape_balances(watched: Watched) -> None:
    """At every scrape of a running agent, received = processed + discarded + in flight, and nothing runs back."""
    assert len(watched.scrapes) > 10
    for scrape in watched.scrapes:
        settled = scrape["processed_total"] + scrape["discarded_total"] + scrape["in_flight"]
        assert scrape["received_total"] == settled
        assert 0 <= scrape["in_flight"] <= BATCH
    for name in ("received_total", "processed_total", "discarded_total"):
        values = [scrape[name] for scrape in watched.scrapes]
        assert values == sorted(values)
    assert any(scrape["in_flight"] for scrape in watched.scrapes)


def test_probes_of_a_running_agent(watched: Watched) -> None:
    """/livez is 200 throughout; /readyz may be 503 at first, turns 200 and stays so."""
    assert set(watched.live) == {200}
    assert set(watched.ready) <= {503, 200}
    assert watched.ready == sorted(watched.ready, reverse=True)
    assert watched.ready[-1] == 200


def test_sigterm_under_load_ends_well(watched: Watched, long: Long) -> None:
    """SIGTERM in mid-stream ends with 0 within seconds, with everything read in the last checkpoint."""
    assert watched.code == 0
    assert watched.seconds_to_stop < 8
    assert watched.stopped["event"] == "stopped"
    assert watched.stopped["in_flight"] == 0
    reached = position(watched.root / "state.sqlite")
    assert reached == watched.stopped["received"]
    assert 0 < reached < len(long.events.read_bytes().splitlines())


def test_a_restart_goes_on_where_sigterm_stopped(bench: Bench, watched: Watched, long: Long) -> None:
    """A restart reads the rest, and the panes equal those of an uninterrupted run."""
    reached = position(watched.root / "state.sqlite")
    done = leadline("run", _config(bench, long, watched.root))
    assert done.code == 0, done.err
    assert done.log[-1]["received"] == len(long.events.read_bytes().splitlines()) - reached
    assert counted(watched.root / "state.sqlite") == long.counted


def _wait_for(metrics: str, name: str, least: float) -> None:
    """Wait until a counter of the agent has come so far."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for line in _status(metrics)[1].splitlines():
            if line.startswith(name) and float(line.rpartition(" ")[2]) >= least:
                return
    pytest.fail(f"{name} never reached {least}")


def _fill_disk(process: subprocess.Popen[str]) -> tuple[int, int]:
    """From now on no file of the agent takes another byte; the limits that were, to make space again."""
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    return before


def test_a_full_disk_is_lived_through(bench: Bench, long: Long, tmp_path: Path) -> None:
    """On a full disk records are scored and nothing counts as kept; with space, the run ends as any other."""
    state = tmp_path / "state.sqlite"
    process = start("run", _config(bench, long, tmp_path, source__file__rate=80))
    metrics = _metrics_address(process)
    _wait_for(metrics, "leadline_events_processed_total", 50)
    before = _fill_disk(process)
    _wait_for(metrics, "leadline_checkpoint_failures_total", 1)
    reached = position(state)
    _wait_for(metrics, "leadline_events_processed_total", 150)
    _wait_for(metrics, "leadline_checkpoint_failures_total", 3)
    assert position(state) == reached
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
    done = finished(process)
    assert done.code == 0, done.err
    assert {line["event"] for line in done.log if line["level"] == "error"} == {"state not saved"}
    assert counted(state) == long.counted


def test_a_disk_that_stays_full_ends_with_4(bench: Bench, long: Long, tmp_path: Path) -> None:
    """If even the last save fails, the exit code says so; the next run reads again what was not kept."""
    state = tmp_path / "state.sqlite"
    process = start("run", _config(bench, long, tmp_path, source__file__rate=80))
    metrics = _metrics_address(process)
    _wait_for(metrics, "leadline_events_processed_total", 50)
    _fill_disk(process)
    _wait_for(metrics, "leadline_checkpoint_failures_total", 1)
    process.terminate()
    done = finished(process)
    assert done.code == 4
    assert done.complaints[-1].startswith(f"state.path: {state} cannot be written: ")
    again = leadline("run", _config(bench, long, tmp_path))
    assert again.code == 0, again.err
    assert counted(state) == long.counted


def test_a_state_cut_short_by_a_crash_is_put_aside(bench: Bench, long: Long, tmp_path: Path) -> None:
    """Killed, and with half of its state gone, it begins anew, says so, and counts the file from its beginning."""
    state = tmp_path / "state.sqlite"
    with start("run", _config(bench, long, tmp_path, source__file__rate=80)) as process:
        _wait_for(_metrics_address(process), "leadline_events_processed_total", 50)
        process.kill()
        process.communicate()
    assert position(state) > 0  # and the log is played in
    state.write_bytes(state.read_bytes()[: state.stat().st_size // 2])
    done = leadline("run", _config(bench, long, tmp_path))
    assert done.code == 0, done.err
    (line,) = [line for line in done.log if line["level"] == "error"]
    assert (line["event"], line["reason"]) == ("state put aside, a new one is begun", "truncated")
    assert counted(state) == long.counted
    again = leadline("run", _config(bench, long, tmp_path))
    assert (again.code, again.log[-1]["received"]) == (0, 0)

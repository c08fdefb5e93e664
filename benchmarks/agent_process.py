"""A real `leadline run` process on a file of short texts, measured from outside through its own /metrics."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import yaml
from workbench import ROOT, say

from agent.assembly import assemble
from agent.bundle import save_reference
from agent.config import FitConfig, ModelConfig, RunConfig, SourceTables, load_config
from agent.demo_texts import LABELS
from agent.fit import fit
from agent.garbage import seldom_collected
from agent.loop import Listeners
from agent.reference import Calibrated
from detectors.contract import Outputs, Source
from detectors.knn import KNN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agent.demo_texts import DemoTables
    from agent.encoder import Encoder
    from agent.records import Record
    from agent.reference import Reference
    from agent.scorer import Scored

BANK = 50_000
START = datetime(2026, 1, 5, tzinfo=UTC)
# Twenty-one thousand records fill the six hours of the long window.
SPACING = timedelta(seconds=1)
COMMAND = (sys.executable, "-c", "from agent.cli import main; main()", "run")


@dataclass(frozen=True)
class Moment:
    """What the agent said of itself at one scrape; `time` is when the snapshot was made, not the scrape."""

    time: float
    processed: float
    encode: float
    score: float
    resident: float  # MB


@dataclass(frozen=True)
class Course:
    """A run: records a second, microseconds a record by part, resident memory over time and at its peak (MB)."""

    rate: float
    encode: float
    score: float
    other: float
    resident: tuple[tuple[float, float], ...]  # (records processed, MB)
    peak: float


def benchmark_reference(tables: DemoTables, encoder: Encoder, encoder_path: Path, out: Path) -> Reference:
    """A reference fitted on real tweets, its bank grown to 50,000 rows by mixing pairs of them."""
    source = SourceTables(**tables.splits)
    model = ModelConfig(name="sentiment", labels=LABELS, outputs="head")
    fitted = fit(FitConfig(model=model, encoder=encoder_path, source=source), encoder, out, _no_progress)
    knn = KNN.fit(Source(Outputs(grown(fitted.detectors["knn"].detector.bank)), Outputs(np.empty((0, 384)))))
    scores = np.sort(knn.score(Outputs(fitted.source.sample["embedding"])))
    reference = replace(fitted, detectors={**fitted.detectors, "knn": Calibrated(knn, scores)})
    save_reference(reference, out)
    return reference


def grown(rows: np.ndarray, size: int = BANK) -> np.ndarray:
    """`size` unit rows: mixtures of two of these, so that they lie where real ones do."""
    random = np.random.default_rng(0)
    first, second = random.integers(len(rows), size=(2, size))
    mixed = rows[first].astype(np.float32) + random.uniform(0, 1, (size, 1)).astype(np.float32) * rows[second]
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def _no_progress(stage: str, done: int, total: int) -> None:
    del stage, done, total


def write_records(path: Path, texts: Sequence[str], number: int, tenants: int) -> None:
    """Native records, in turn from so many tenants, each a slice of its own."""
    with path.open("w", encoding="utf-8") as stream:
        for place in range(number):
            record = {
                "id": f"event-{place}",
                "time": (START + place * SPACING).isoformat(),
                "model": "sentiment",
                "slice": f"tenant-{place % tenants}",
                "text": texts[place % len(texts)],
                "prediction": LABELS[place % 2],
            }
            stream.write(json.dumps(record) + "\n")


def write_config(directory: Path, records: Path, threads: int) -> Path:
    """A run configuration with state on disk, for the records and the reference in `directory`."""
    config = {
        "reference": "reference",
        "source": {"file": {"path": records.name}},
        "encoding": {"threads": threads, "device": "cpu"},
        "state": {"path": "state.sqlite"},
        "exporters": {"prometheus": {"port": _free_port()}},
    }
    path = directory / "run.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def watched(config: Path, seconds: float, every: float = 5.0) -> Course:
    """Run the agent for so long and scrape it now and then; medians over the intervals between scrapes."""
    port = load_config(config, RunConfig).exporters.prometheus.port
    with running(config) as process:
        moments = [first_moment(process, config, port)]
        say(f"leadline run is scoring; watching it for {seconds:.0f} s")
        while moments[-1].time - moments[0].time < seconds:
            time.sleep(every)
            moments.append(moment(process.pid, port))
        peak = memory(process.pid, "VmHWM")
    return course(moments, peak)


@contextmanager
def running(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process, ended as Kubernetes ends it."""
    command = [*COMMAND, str(config)]
    with (
        log_of(config).open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT) as process,  # noqa: S603 - our own program
    ):
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)


def log_of(config: Path) -> Path:
    """Where the process says what it does."""
    return config.with_suffix(".log")


def first_moment(process: subprocess.Popen[bytes], config: Path, port: int) -> Moment:
    """The first scrape that shows a processed record. Exits with the process's last words if it ends before."""
    while process.poll() is None:
        time.sleep(0.2)
        try:
            found = moment(process.pid, port)
        except OSError:
            continue
        if found.processed:
            return found
    last = "\n".join(log_of(config).read_text(encoding="utf-8").splitlines()[-5:])
    raise SystemExit(f"leadline run ended with exit code {process.returncode} before it scored anything:\n{last}")


def moment(pid: int, port: int) -> Moment:
    """One scrape."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    values = {line.partition("{")[0].split()[0]: float(line.split()[-1]) for line in lines if line[:1] != "#"}
    return Moment(
        time=values["leadline_heartbeat_timestamp_seconds"],
        processed=values.get("leadline_events_processed_total", 0.0),
        encode=values["leadline_encode_seconds_sum"],
        score=values["leadline_score_seconds_sum"],
        resident=memory(pid, "VmRSS"),
    )


def memory(pid: int, field: str) -> float:
    """VmRSS or VmHWM (the peak) of a process, in MB of 2^20 bytes; from Linux's /proc."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def course(moments: Sequence[Moment], peak: float) -> Course:
    """From scrapes to medians over the intervals in which records were processed."""
    steps = [
        (later, earlier, later.processed - earlier.processed)
        for earlier, later in pairwise(moments)
        if later.processed > earlier.processed
    ]
    whole = [1e6 * (later.time - earlier.time) / records for later, earlier, records in steps]
    encode = [1e6 * (later.encode - earlier.encode) / records for later, earlier, records in steps]
    score = [1e6 * (later.score - earlier.score) / records for later, earlier, records in steps]
    rest = [all_ - part - other for all_, part, other in zip(whole, encode, score, strict=True)]
    return Course(
        rate=1e6 / median(whole),
        encode=median(encode),
        score=median(score),
        other=median(rest),
        resident=tuple((found.processed, found.resident) for found in moments),
        peak=peak,
    )


def everything_else(config: Path, records: int) -> float:
    """CPU microseconds a record of the whole loop but encoding and scoring, whose result is given to it ready.

    Reading, parsing, panes, windows, the ledger, snapshots and checkpoints, in this process, best of three runs.
    """
    return min(_without_scoring(config, records) for _ in range(3))


def _without_scoring(config: Path, records: int) -> float:
    checked = load_config(config, RunConfig)
    if checked.state:
        for old in checked.state.path.parent.glob(f"{checked.state.path.name}*"):
            old.unlink()
    stop = Event()
    agent = assemble(checked, stop)
    ready: dict[int, Scored] = {}
    seen = 0

    def score(batch: Sequence[Record]) -> Scored:
        nonlocal seen
        size = len(batch)
        seen += size
        if size not in ready:
            ready[size] = agent.score(batch)
        if seen >= records:
            stop.set()
        return ready[size]

    score(agent.source.read().records)
    seen = 0
    with seldom_collected():  # as `leadline run` does
        started = time.thread_time()
        replace(agent, score=score).run(Listeners(publish=lambda _: None, closed=lambda _: None), stop)
        return 1e6 * (time.thread_time() - started) / records

"""What the benchmarks share: where texts and encoders come from, how time is taken, how a page is written."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyarrow import parquet  # type: ignore[import-untyped]  # ships no types

from agent.downloads import cache_directory
from agent.encoder.fetch import fetch_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from agent.encoder import Encoder
    from agent.encoder.fetch import Precision

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "benchmarks"
ENCODER = "all-MiniLM-L6-v2"


def say(line: str) -> None:
    """Tell the person waiting what happens now; pages and tables go to standard output instead."""
    print(line, file=sys.stderr, flush=True)


def columns(table: str, *names: str) -> list[list[str]]:
    """The named columns of an evaluation table. Exits with what to do where the table is absent."""
    directory = Path(os.environ.get("LEADLINE_DATA") or ROOT.parent / "shared" / "data")
    path = directory / f"{table}.parquet"
    if not path.is_file():
        raise SystemExit(f"{path} does not exist: set LEADLINE_DATA to the directory with the evaluation texts")
    found = parquet.read_table(path, columns=list(names))
    return [found[name].to_pylist() for name in names]


def encoder_directory(precision: Precision) -> Path:
    """The benchmark's encoder, fetched into the cache the first time."""
    out = cache_directory() / "encoders" / f"{ENCODER}-{precision}"
    return fetch_encoder(ENCODER, out, precision=precision, on_step=say)


def embedded(texts: Sequence[str], encoder: Encoder, what: str) -> NDArray[np.float32]:
    """(n, d) embeddings, kept in the cache under the hashes of the encoder and of the texts."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    path = cache_directory() / "embeddings" / f"{encoder.sha256[:16]}-{digest[:16]}.npy"
    if path.is_file():
        say(f"{what}: {len(texts)} embeddings from the cache")
        return np.load(path)
    say(f"{what}: encoding {len(texts)} texts; at 50 to 150 a second about {len(texts) / 6000:.0f} minutes")
    found = encoder.encode(texts, on_progress=_progress(len(texts))).embedding
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, found)
    return found


def _progress(total: int) -> Callable[[int], None]:
    """Says every tenth of the way."""
    said = 0

    def on_progress(done: int) -> None:
        nonlocal said
        if done * 10 // total > said:
            said = done * 10 // total
            say(f"  {done} of {total}")

    return on_progress


def best_of(tasks: Mapping[str, Callable[[], object]], repeats: int = 5, pause: float = 0.0) -> dict[str, float]:
    """The least wall-clock seconds of each task, taken in turns so that a busy moment hits all of them alike.

    One turn before the first does not count. `pause` seconds before each task: the idle worker threads of one
    contender may spin for a while on the cores that the next one needs.
    """
    turns = [{name: _seconds(task, pause) for name, task in tasks.items()} for _ in range(repeats + 1)]
    return {name: min(turn[name] for turn in turns[1:]) for name in tasks}


def _seconds(task: Callable[[], object], pause: float) -> float:
    time.sleep(pause)
    started = time.perf_counter()
    task()
    return time.perf_counter() - started


def machine() -> str:
    """What was measured on: processor, cores, Python; no names."""
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'} ({platform.machine()})"


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    rules = ["---", *["---:"] * (len(header) - 1)]
    lines = [header, rules, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def publish(name: str, page: str, *, write: bool) -> None:
    """Print a page, and with `write` also put it into docs/benchmarks/."""
    print(page)
    if write:
        PAGES.mkdir(parents=True, exist_ok=True)
        path = PAGES / f"{name}.md"
        path.write_text(page, encoding="utf-8")
        say(f"wrote {path.relative_to(ROOT)}")


def publish_sections(name: str, head: str, sections: Mapping[str, str], *, write: bool) -> None:
    """As `publish`; a section, headed `## title`, that was not measured this time stays as it was."""
    path = PAGES / f"{name}.md"
    before = path.read_text(encoding="utf-8").split("\n## ")[1:] if path.is_file() else []
    kept = {title: body for title, _, body in (section.partition("\n") for section in before)}
    kept |= {title: f"\n{body}" for title, body in sections.items()}
    parts = [head, *(f"{title}\n{body.rstrip()}\n" for title, body in kept.items())]
    publish(name, "\n## ".join(parts), write=write)

"""What the command line's tests work with: a way to start it, tables of real texts, configurations, streams."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import yaml

from agent.cli import main
from agent.state_store.pane_blobs import unpack
from agent.tables import read_table, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agent.panes import Pane

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
LABELS = ("negative", "positive")
Rated = tuple[str, str]  # a text and its label


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """Standard error without the log, a line a finding."""
        return [line.removeprefix("error: ") for line in self.err.splitlines() if not line.startswith("{")]

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines of the structured log."""
        return [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]


def leadline(*arguments: object) -> Outcome:
    """Run a command inside this process, which saves the imports; an uncaught error reaches the test."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["leadline", *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return Outcome(code, out.getvalue(), err.getvalue())


def start(*arguments: object, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start the installed `leadline` as a process of its own."""
    script = Path(sys.executable).with_name("leadline")
    return subprocess.Popen(
        [script, *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    )


def finished(process: subprocess.Popen[str], stdin: str | None = None) -> Outcome:
    """Wait for a process, and give what it said."""
    with process:
        try:
            out, err = process.communicate(stdin, timeout=240)
        finally:
            process.kill()  # nothing if it has ended
    return Outcome(process.returncode, out, err)


@dataclass(frozen=True)
class Bench:
    """A directory with an encoder, tables, and a reference fitted on them; texts by domain to make more."""

    root: Path
    texts: Mapping[str, Sequence[Rated]]

    @property
    def encoder(self) -> Path:
        """The encoder that the reference was fitted with."""
        return self.root / "encoder"

    @property
    def reference(self) -> Path:
        """The reference; not to be changed."""
        return self.root / "reference"

    def fit_config(self, path: Path, **changes: object) -> Path:
        """A fit configuration at `path`; `changes` are keys such as `model__outputs`, None takes one away."""
        content = {
            "model": {"name": "sentiment", "labels": list(LABELS), "outputs": "head"},
            "encoder": str(self.encoder),
            "source": {name: str(self.root / f"{name}.parquet") for name in ("train", "validation", "test")},
            "domains": {name: str(self.root / f"{name}.parquet") for name in ("amazon", "editorials")},
        }
        return write_config(path, content, changes)

    def run_config(self, path: Path, stream: Path, **changes: object) -> Path:
        """A run configuration at `path` over `stream`; `changes` as for `fit_config`."""
        content = {
            "reference": str(self.reference),
            "source": {"file": {"path": str(stream)}},
            "windows": {"pane": "5m", "short": "10m", "long": "30m", "min_items": 20, "lateness": "1s"},
            "exporters": {"prometheus": {"port": 0}},
        }
        return write_config(path, content, changes)


def write_config(path: Path, content: dict[str, Any], changes: Mapping[str, object]) -> Path:
    """Write a configuration with changes to single keys."""
    for key, value in changes.items():
        *above, last = key.split("__")
        place = content
        for part in above:
            place = place.setdefault(part, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = str(value) if isinstance(value, Path) else value
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def table(path: Path, rated: Sequence[Rated], **columns: Sequence[object] | None) -> Path:
    """A labelled table of these texts; `columns` adds or replaces columns, None takes one away."""
    content: dict[str, Sequence[object] | None] = {
        "id": [f"{path.stem}-{row}" for row in range(len(rated))],
        "text": [text for text, _ in rated],
        "label": [label for _, label in rated],
    }
    write_table(path, {name: values for name, values in (content | columns).items() if values is not None})
    return path


def columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a table, as Python values."""
    found: dict[str, list[Any]] = read_table(path).data.to_pydict()
    return found


def records(rated: Sequence[Rated], seconds: float = 3.0) -> list[dict[str, Any]]:
    """Native records of these texts, one every few seconds of event time."""
    return [
        {"id": f"event-{row}", "time": (START + timedelta(seconds=seconds * row)).isoformat(), "text": text}
        for row, (text, _) in enumerate(rated)
    ]


def stream(path: Path, lines: Iterable[object]) -> Path:
    """A file of JSON Lines; text and bytes are lines as they are."""
    whole = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in whole))
    return path


def facts(path: Path) -> dict[str, Any]:
    """What `--json` wrote."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def panes(path: Path) -> dict[tuple[str, int], Pane]:
    """Every pane in a state store."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT slice, start, content FROM panes").fetchall()
    return {(name, begin): unpack(name, begin, content) for name, begin, content in rows}


def position(path: Path) -> int:
    """How many rows of the file the state store has seen."""
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute("SELECT coalesce(max(position), 0) FROM positions").fetchone()
    return int(found)


def counted(path: Path) -> dict[tuple[str, int], tuple[object, ...]]:
    """What the panes in a state store count, in values that compare: items, classes, words, p-values, ids."""
    return {
        key: (
            pane.tally.items,
            pane.tally.classes.tolist(),
            Counter(dict(enumerate(pane.tally.words.tolist()))),
            pane.tally.p_counts.tolist(),
            sorted(pane.sample.ids.tolist()),
        )
        for key, pane in panes(path).items()
    }

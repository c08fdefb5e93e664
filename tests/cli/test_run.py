"""`leadline run`: records from every kind of file, and what becomes of the bad ones."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from agent.reasons import Reason
from tests.cli.workbench import facts, finished, leadline, panes, records, start, stream, table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.workbench import Bench

ITEMS = 60
CANARY = "zanzibarquokka"


@pytest.fixture(scope="module")
def plain(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The facts of a run over JSON Lines."""
    root = tmp_path_factory.mktemp("plain")
    lines = stream(root / "events.jsonl", records(bench.texts["tweets"][600 : 600 + ITEMS], seconds=10))
    done = leadline("run", bench.run_config(root / "run.yaml", lines), "--json", root / "run.json")
    assert done.code == 0, done.err
    return facts(root / "run.json")


def test_the_facts_of_a_run(bench: Bench, plain: dict[str, Any]) -> None:
    """`--json` tells what became of the records, and every window that closed."""
    assert plain["reference"] == facts(bench.root / "fit.json")["id"]
    assert plain["events"] == {
        "received": ITEMS,
        "processed": ITEMS,
        "discarded": {},
        "dead_lettered": {},
        "in_flight": 0,
        "truncated": 0,
    }
    short, long = (
        [window for window in plain["windows"] if window["window"] == kind] for kind in ("short", "long")
    )
    assert [window["items"] for window in short] == [30, 60]
    assert [window["items"] for window in long] == [30, 60]
    assert sum(short[-1]["classes"].values()) == ITEMS
    assert 0 <= short[-1]["ood_ratio"]["knn"] < 0.3


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_kind_of_file_gives_the_same_windows(
    kind: str, bench: Bench, plain: dict[str, Any], tmp_path: Path
) -> None:
    """The same records as CSV or Parquet give the facts that JSON Lines give."""
    tweets = bench.texts["tweets"][600 : 600 + ITEMS]
    times = [line["time"] for line in records(tweets, seconds=10)]
    events = table(tmp_path / f"event.{kind}", tweets, timestamp=times)
    done = leadline("run", bench.run_config(tmp_path / "run.yaml", events), "--json", tmp_path / "run.json")
    assert done.code == 0, done.err
    assert facts(tmp_path / "run.json") == plain


def test_standard_input(bench: Bench, plain: dict[str, Any], tmp_path: Path) -> None:
    """`-` reads JSON Lines from standard input until it is closed."""
    lines = stream(tmp_path / "e.jsonl", records(bench.texts["tweets"][600 : 600 + ITEMS], seconds=10))
    config = bench.run_config(tmp_path / "run.yaml", lines, source__file__path="-")
    process = start("run", config, "--json", tmp_path / "run.json", stdin=subprocess.PIPE)
    done = finished(process, lines.read_text(encoding="utf-8"))
    assert done.code == 0, done.err
    assert facts(tmp_path / "run.json") == plain


def _dirty(good: list[dict[str, Any]]) -> dict[str, list[object]]:
    """Lines that cannot be used, by the reason they should be discarded for; each text holds the canary."""
    text = f"{CANARY} in a bad record"
    return {
        "not_json": ['{"text": "' + text, b"\xff\xfe\x00", "[" * 5_000],
        "not_an_object": ["[1, 2]", "null", f'"{text}"'],
        "too_large": [{"text": "x" * (1 << 20)}],
        "label_only": [{"label": "positive"}],
        "no_text": [{"id": "event-1"}],
        "text_not_string": [{"text": 5}, {"text": None}],
        "empty_text": [{"text": ""}, {"text": " \n"}],
        "wrong_type": [{"text": text, "id": {"a": 1}}],
        "id_too_long": [{"text": text, "id": "i" * 300}],
        "invalid_time": [{"text": text, "time": "yesterday"}, {"text": text, "time": -1}],
        "future_time": [{"text": text, "time": "2999-01-01T00:00:00Z"}],
        "other_model": [{"text": text, "model": "another"}],
        "unknown_label": [{"text": text, "label": "meh"}],
        "late": [good[0] | {"id": "late", "text": text}],
    }


def test_no_record_is_lost_and_none_leaks(bench: Bench, tmp_path: Path) -> None:
    """In a dirty file every record is processed or discarded for a known reason, and no text leaves the agent."""
    good = records(bench.texts["tweets"][600:640], seconds=30)
    good[3]["text"] = f"what a day, {CANARY}, and nothing else"
    good[4]["text"] = "half a pair \ud800 of surrogates"
    good[5]["text"] = f"{CANARY} " * 60_000  # nearly a megabyte
    bad = _dirty(good)
    late = bad.pop("late")
    faults = [line for lines in bad.values() for line in lines]
    lines = stream(tmp_path / "dirty.jsonl", [*good[:20], "", *faults, *good[20:], *late])
    state = tmp_path / "state.sqlite"
    config = bench.run_config(tmp_path / "run.yaml", lines, state__path=state, encoding__batch=16)
    done = leadline("run", config, "--json", tmp_path / "run.json")
    assert done.code == 0, done.err

    events = facts(tmp_path / "run.json")["events"]
    expected = {reason: len(found) for reason, found in bad.items()} | {"late": 1}
    assert events["discarded"] == expected
    assert expected.keys() <= {reason.value for reason in Reason}
    assert (events["processed"], events["in_flight"], events["truncated"]) == (40, 0, 1)
    assert events["received"] == events["processed"] + sum(expected.values())
    assert sum(pane.tally.items for pane in panes(state).values()) == 40

    assert all(isinstance(line, dict) for line in done.log)
    assert not done.complaints
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("state.sqlite*"))
    for place in (done.out, done.err, (tmp_path / "run.json").read_text(encoding="utf-8"), kept.decode("latin-1")):
        assert CANARY not in place
    assert CANARY.encode("utf-32-le") not in kept


def test_a_log_line_is_json_and_says_where_the_metrics_are(bench: Bench, tmp_path: Path) -> None:
    """The log is JSON, one event a line, from `started` with the metrics' address to `stopped` with the counts."""
    lines = stream(tmp_path / "events.jsonl", records(bench.texts["tweets"][600:603]))
    done = leadline("run", bench.run_config(tmp_path / "run.yaml", lines))
    assert [line["event"] for line in done.log] == ["started", "stopped"]
    assert done.log[0]["metrics"].startswith("http://127.0.0.1:")
    assert done.log[1]["processed"] == 3
    assert {"level", "timestamp"} <= done.log[0].keys()


def test_further_slices_are_counted_together(bench: Bench, tmp_path: Path) -> None:
    """Slices beyond the configured number share `__other__`; records without one are in `default`."""
    lines = records(bench.texts["tweets"][600:640])
    for row, line in enumerate(lines[:35]):
        line["slice"] = f"tenant-{row % 5}"
    config = bench.run_config(tmp_path / "run.yaml", stream(tmp_path / "s.jsonl", lines), slices__max=2)
    done = leadline("run", config, "--json", tmp_path / "run.json")
    assert done.code == 0, done.err
    items = {
        window["slice"]: window["items"]
        for window in facts(tmp_path / "run.json")["windows"]
        if window["window"] == "short"
    }
    assert items == {"tenant-0": 7, "tenant-1": 7, "__other__": 21, "default": 5}


def test_an_empty_file_is_an_end(bench: Bench, tmp_path: Path) -> None:
    """A file without a record ends well, with nothing counted."""
    lines = stream(tmp_path / "empty.jsonl", [])
    done = leadline("run", bench.run_config(tmp_path / "run.yaml", lines), "--json", tmp_path / "run.json")
    assert done.code == 0
    assert facts(tmp_path / "run.json")["windows"] == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"source__file__path": "absent.jsonl"}, "source.file.path: {}/absent.jsonl: no such file"),
        (
            {"source__file__path": "run.yaml"},
            "source.file.path: {}/run.yaml: the name must end in .parquet, .csv or .jsonl",
        ),
        ({"reference": "absent"}, "{}/absent is not a reference: it has no manifest.json"),
        ({"source__amqp": {}}, "{}/run.yaml: source.amqp: unknown key. Remove it, or check its spelling."),
        ({"windows__pane": "0.5s"}, "{}/run.yaml: windows: pane must be a whole number of seconds"),
        ({"windows__pane": "soon"}, "{}/run.yaml: windows.pane: "),
        ({"encoding__device": "gpu"}, "device is gpu but no GPU can be used"),
        ({"encoder": "absent"}, "the encoder of reference "),
        ({"state__path": "."}, "state.path: {}: cannot be opened: Is a directory"),
    ],
)
def test_a_run_that_cannot_start(changes: dict[str, object], complaint: str, bench: Bench, tmp_path: Path) -> None:
    """What is wrong with a run's configuration or files is one line, and ends with 2."""
    lines = stream(tmp_path / "events.jsonl", records(bench.texts["tweets"][600:603]))
    done = leadline("run", bench.run_config(tmp_path / "run.yaml", lines, **changes))
    assert done.code == 2
    assert done.complaints[0].startswith(complaint.format(tmp_path))


def test_a_port_in_use_ends_with_4(bench: Bench, tmp_path: Path) -> None:
    """A port that something else listens on is named, and ends with 4."""
    lines = stream(tmp_path / "events.jsonl", records(bench.texts["tweets"][600:603]))
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        done = leadline("run", bench.run_config(tmp_path / "run.yaml", lines, exporters__prometheus__port=port))
    assert (done.code, done.complaints) == (
        4,
        [f"cannot serve metrics on 127.0.0.1:{port}: the port is already in use"],
    )


@pytest.fixture
def stateful(bench: Bench, tmp_path: Path) -> Path:
    """The configuration of a run that has kept its state in `state.sqlite` beside it."""
    lines = stream(tmp_path / "events.jsonl", records(bench.texts["tweets"][600:603]))
    config = bench.run_config(tmp_path / "run.yaml", lines, state__path=tmp_path / "state.sqlite")
    assert leadline("run", config).code == 0
    return config


def put_aside(directory: Path) -> list[str]:
    """The reasons of the states put aside there."""
    return [path.name.rsplit("-", 1)[1] for path in directory.glob("state.sqlite.quarantine-*")]


@pytest.mark.usefixtures("stateful")
def test_a_state_of_other_panes_is_put_aside(bench: Bench, tmp_path: Path) -> None:
    """A state that belongs to something else is kept under another name, and the run starts afresh and says so."""
    other = bench.run_config(
        tmp_path / "other.yaml",
        tmp_path / "events.jsonl",
        state__path=tmp_path / "state.sqlite",
        windows__pane="10m",
    )
    done = leadline("run", other)
    assert (done.code, done.log[-1]["received"], put_aside(tmp_path)) == (0, 3, ["other_owner"])
    assert [line["level"] for line in done.log] == ["error", "info", "info"]
    assert leadline("run", other).log[-1]["received"] == 0


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE panes SET content = substr(content, 1, 100)",
        "UPDATE panes SET sha256 = zeroblob(32)",
        "UPDATE positions SET position = position + 1",
    ],
)
def test_a_damaged_state_is_put_aside(spoil: str, stateful: Path, tmp_path: Path) -> None:
    """A damaged pane or position puts the state aside under another name; the next start is clean."""
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as database:
        database.execute(spoil)
        database.commit()
    done = leadline("run", stateful)
    assert (done.code, done.log[-1]["received"], put_aside(tmp_path)) == (0, 3, ["corrupt"])
    again = leadline("run", stateful)
    assert (again.code, again.log[-1]["received"], len(put_aside(tmp_path))) == (0, 0, 1)


def test_a_file_that_is_no_state_is_refused(stateful: Path, tmp_path: Path) -> None:
    """A file that is no database is named and left as it was."""
    for left in tmp_path.glob("state.sqlite*"):
        left.unlink()
    (tmp_path / "state.sqlite").write_text("no database " * 100, encoding="utf-8")
    done = leadline("run", stateful)
    assert done.code in {2, 3}
    assert done.complaints[0].startswith(f"state.path: {tmp_path}/state.sqlite")
    assert (tmp_path / "state.sqlite").read_text(encoding="utf-8").startswith("no database")


def test_a_locked_state_is_said_to_be_locked(stateful: Path, tmp_path: Path) -> None:
    """A state store that another process holds ends in one line that says so."""
    with closing(sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        done = leadline("run", stateful)
    assert done.code in {2, 3, 4}
    (line,) = done.complaints
    assert line.startswith(f"state.path: {tmp_path}/state.sqlite")
    assert "locked" in line


def test_a_loop_starts_again(bench: Bench, tmp_path: Path) -> None:
    """`loop` replays the file for ever, so a process has to be told to stop; then it ends with 0."""
    lines = stream(tmp_path / "events.jsonl", records(bench.texts["tweets"][600:610]))
    config = bench.run_config(tmp_path / "run.yaml", lines, source__file__loop=True, encoding__batch=8)
    process = start("run", config, "--json", tmp_path / "run.json")
    assert process.stderr is not None
    assert json.loads(process.stderr.readline())["event"] == "started"
    try:
        process.wait(1.5)
    except subprocess.TimeoutExpired:
        process.terminate()
    done = finished(process)
    assert done.code == 0, done.err
    assert facts(tmp_path / "run.json")["events"]["processed"] > 10

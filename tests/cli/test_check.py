"""`leadline check`: one line a finding, before anything runs."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.cli.workbench import Outcome, facts, leadline, records, stream

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import OnnxTaskModel
    from tests.cli.workbench import Bench

DESCRIBED = "all-MiniLM-L6-v2, 384 dimensions, on CPUExecutionProvider"
NO_ENCODER = "has no model.onnx (nor onnx/model.onnx); expected model.onnx and tokenizer.json"

NARROW = "the task model gives 1 logits, but the configuration names 2 labels"


def _lines(done: Outcome) -> list[str]:
    return [" ".join(line.split()) for line in done.out.splitlines()]


@pytest.fixture
def events(bench: Bench, tmp_path: Path) -> Path:
    """A stream of a few records."""
    return stream(tmp_path / "events.jsonl", records(bench.texts["tweets"][600:604]))


def test_a_good_fit_configuration(bench: Bench) -> None:
    """A fit configuration is good if its encoder opens and its tables are what a fit needs: 0."""
    done = leadline("check", bench.root / "fit.yaml")
    assert (done.code, _lines(done)) == (
        0,
        [
            "ok configuration: fits a reference for sentiment",
            f"ok encoder: {DESCRIBED}",
            "ok tables: train 300, validation 150, test 100, domain amazon 100, domain editorials 100",
        ],
    )


def test_a_bad_fit_configuration(bench: Bench, onnx_task: OnnxTaskModel, tmp_path: Path) -> None:
    """Every check is made, whatever failed before it, and any failure ends with 1."""
    absent = tmp_path / "absent"
    config = bench.fit_config(
        tmp_path / "fit.yaml",
        encoder=absent,
        model__outputs="onnx",
        model__path=onnx_task.narrow,
        domains__hotels=tmp_path / "hotels.csv",
    )
    done = leadline("check", config)
    assert (done.code, _lines(done)) == (
        1,
        [
            "ok configuration: fits a reference for sentiment",
            f"FAIL encoder: {absent} {NO_ENCODER}",
            f"FAIL task model: {onnx_task.narrow}: {NARROW}",
            f"FAIL tables: {tmp_path}/hotels.csv: no such file",
        ],
    )


def test_a_good_run_configuration(bench: Bench, events: Path, tmp_path: Path) -> None:
    """A run configuration is good if everything it needs can be opened: 0, with the same findings as JSON."""
    config = bench.run_config(tmp_path / "run.yaml", events, state__path=tmp_path / "deep" / "state.sqlite")
    done = leadline("check", config, "--json", tmp_path / "check.json")
    name = facts(bench.root / "fit.json")["id"]
    assert (done.code, _lines(done)) == (
        0,
        [
            f"ok configuration: runs against {bench.reference}",
            f"ok reference: {name}, 9 detectors, 2 reference domains",
            f"ok encoder: {DESCRIBED}",
            f"ok source: reads {events}",
            f"ok state: starts afresh in {tmp_path}/deep/state.sqlite",
            "ok exporters.prometheus: any free port of 127.0.0.1",
        ],
    )
    told = facts(tmp_path / "check.json")
    assert told["failed"] == 0
    assert [f"ok {found['check']}: {found['message']}" for found in told["findings"]] == _lines(done)
    assert not (tmp_path / "deep").exists()


def test_a_bad_run_configuration(bench: Bench, tmp_path: Path) -> None:
    """A missing source, a taken port and a state that is no database each fail, in one line: 1."""
    state = tmp_path / "state.sqlite"
    state.write_text("this is no database " * 100, encoding="utf-8")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        config = bench.run_config(
            tmp_path / "run.yaml",
            tmp_path / "absent.jsonl",
            state__path=state,
            exporters__prometheus__port=port,
        )
        done = leadline("check", config, "--json", tmp_path / "check.json")
    lines = _lines(done)
    assert done.code == 1
    assert lines[3] == f"FAIL source: source.file.path: {tmp_path}/absent.jsonl: no such file"
    assert lines[4].startswith(f"FAIL state: state.path: {state}")
    assert lines[5] == (
        f"FAIL exporters.prometheus: cannot serve metrics on 127.0.0.1:{port}: the port is already in use"
    )
    told = facts(tmp_path / "check.json")
    assert [found["ok"] for found in told["findings"]] == [True, True, True, False, False, False]
    assert told["failed"] == 3


def test_a_run_without_its_reference(events: Path, bench: Bench, tmp_path: Path) -> None:
    """Without a reference there is nothing to hold the source against; the rest is still checked."""
    config = bench.run_config(tmp_path / "run.yaml", events, reference=tmp_path / "absent")
    assert _lines(leadline("check", config)) == [
        f"ok configuration: runs against {tmp_path}/absent",
        f"FAIL reference: {tmp_path}/absent is not a reference: it has no manifest.json",
        "ok exporters.prometheus: any free port of 127.0.0.1",
    ]


def test_a_state_that_is_gone_on_from(bench: Bench, events: Path, tmp_path: Path) -> None:
    """A state store of this reference is recognised, one of other panes is not, and neither is changed."""
    state = tmp_path / "state.sqlite"
    config = bench.run_config(tmp_path / "run.yaml", events, state__path=state)
    assert leadline("run", config).code == 0
    assert f"ok state: goes on from {state}" in _lines(leadline("check", config))
    other = bench.run_config(tmp_path / "other.yaml", events, state__path=state, windows__pane="10m")
    done = leadline("check", other)
    assert done.code == 1
    assert f"FAIL state: state.path: {state}: it was written for another reference" in done.out
    with closing(sqlite3.connect(state)) as database:
        assert database.execute("SELECT position FROM positions").fetchall() == [(4,)]


def test_a_configuration_that_is_wrong_in_itself(bench: Bench, events: Path, tmp_path: Path) -> None:
    """A mistake in the file itself ends with 2, and nothing else is checked."""
    config = bench.run_config(tmp_path / "run.yaml", events, windows__pane="7m")
    done = leadline("check", config)
    assert (done.code, done.out) == (2, "")
    assert done.complaints[0].startswith(f"{config}: windows: short and long must be whole multiples of pane")

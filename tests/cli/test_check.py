"""`leadline check`: one line a finding, before anything runs."""

from __future__ import annotations

import socket
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agent.bundle import load_reference, save_reference
from tests.cli.workbench import Outcome, facts, leadline, records, stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import OnnxTaskModel
    from tests.cli.workbench import Bench
    from tests.kafka_broker import Broker

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


def test_a_new_reference_is_noted_and_no_failure(bench: Bench, events: Path, tmp_path: Path) -> None:
    """The state of the old one would be put aside, which is what a new version comes to: 0."""
    state = tmp_path / "state.sqlite"
    config = bench.run_config(tmp_path / "run.yaml", events, state__path=state)
    assert leadline("run", config).code == 0
    save_reference(replace(load_reference(bench.reference), model="another"), tmp_path / "second")
    newer = bench.run_config(
        tmp_path / "newer.yaml", events, state__path=state, reference=tmp_path / "second", encoder=bench.encoder
    )
    done = leadline("check", newer, "--json", tmp_path / "check.json")
    assert done.code == 0, done.out
    assert f"note state: {state} was written for another reference" in done.out
    (found,) = (each for each in facts(tmp_path / "check.json")["findings"] if each["check"] == "state")
    assert (found["ok"], found["notice"]) == (True, True)


def test_a_redaction_that_is_not_there_is_one_finding(bench: Bench, events: Path, tmp_path: Path) -> None:
    """Under `annotation`, and not under `source` as well."""
    annotation = {"path": str(tmp_path / "batches"), "texts": True, "redact": "no_such_module:hide"}
    config = bench.run_config(tmp_path / "run.yaml", events, annotation=annotation)
    done = leadline("check", config)
    assert done.code == 1
    assert [line.split(":")[0] for line in _lines(done) if line.startswith("FAIL")] == ["FAIL annotation"]


def test_a_configuration_that_is_wrong_in_itself(bench: Bench, events: Path, tmp_path: Path) -> None:
    """A mistake in the file itself ends with 2, and nothing else is checked."""
    config = bench.run_config(tmp_path / "run.yaml", events, windows__pane="7m")
    done = leadline("check", config)
    assert (done.code, done.out) == (2, "")
    assert done.complaints[0].startswith(f"{config}: windows: short and long must be whole multiples of pane")


def _finding(done: Outcome, subject: str) -> str:
    return next(line for line in _lines(done) if line.split()[1] == f"{subject}:")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody answers, and which nobody else can take meanwhile."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_kafka_source_is_asked_for_its_topics(bench: Bench, kafka: Broker, tmp_path: Path) -> None:
    """Topics, also that of dead letters, are shown with their partitions; one that is missing by its key: 1."""
    for topic, partitions in (("check-one", 1), ("check-three", 3), ("check-dead", 1)):
        kafka.create_topic(topic, partitions)

    def checked(letters: dict[str, object], *topics: str) -> tuple[int, str, str]:
        source = {"servers": [kafka.bootstrap], "topics": list(topics)}
        config = bench.run_config(
            tmp_path / "run.yaml", tmp_path, source__file=None, source__kafka=source, dead_letters=letters
        )
        done = leadline("check", config)
        return done.code, _finding(done, "source"), _finding(done, "dead_letters")

    assert checked({"topic": "check-dead"}, "check-one", "check-three") == (
        0,
        "ok source: check-one: 1 partition, check-three: 3 partitions",
        "ok dead_letters: check-dead: 1 partition",
    )
    nobody = "no such topic, or this user may not see it"
    elsewhere = {"topic": "check-no-letters", "connection": {"servers": [kafka.bootstrap]}}
    assert checked(elsewhere, "check-one", "check-none") == (
        1,
        f"FAIL source: source.kafka.topics: check-none: {nobody}",
        f"FAIL dead_letters: dead_letters.topic: check-no-letters: {nobody}",
    )


def test_a_kafka_source_without_a_broker(bench: Bench, closed_port: int, tmp_path: Path) -> None:
    """It fails within seconds, and says what to look at."""
    source = {"servers": [f"127.0.0.1:{closed_port}"], "topics": ["traffic"]}
    config = bench.run_config(tmp_path / "run.yaml", tmp_path, source__file=None, source__kafka=source)
    began = time.monotonic()
    done = leadline("check", config)
    assert time.monotonic() - began < 30
    assert done.code == 1
    assert _finding(done, "source") == (
        f"FAIL source: source.kafka: 127.0.0.1:{closed_port}: "
        "no broker let us in: check `servers`, `tls` and `sasl` (KafkaTimeoutError)"
    )


def test_an_http_source_on_a_taken_port(bench: Bench, tmp_path: Path) -> None:
    """The port is tried, and who has it is to be found: 1."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        config = bench.run_config(tmp_path / "run.yaml", tmp_path, source__file=None, source__http={"port": port})
        done = leadline("check", config)
    assert done.code == 1
    assert _finding(done, "source") == (
        f"FAIL source: cannot serve the HTTP intake on 127.0.0.1:{port}: the port is already in use"
    )


@pytest.mark.parametrize("kind", ["kafka", "http", "file"])
def test_a_wrong_mapping(bench: Bench, events: Path, closed_port: int, kind: str, tmp_path: Path) -> None:
    """A path that is none names its field before anything is connected, whatever the source."""
    source: dict[str, object] = {
        "kafka": {"servers": [f"127.0.0.1:{closed_port}"], "topics": ["traffic"]},
        "http": {"port": 0},
        "file": {"path": str(events)},
    }[kind]
    source |= {"format": "mapping", "mapping": {"text": "inputs[*].text"}}
    config = bench.run_config(tmp_path / "run.yaml", events, **{"source__file": None, f"source__{kind}": source})
    done = leadline("check", config)
    assert done.code == 1
    assert _finding(done, "source").startswith("FAIL source: mapping.text: the path 'inputs[*].text' ")

"""`leadline check`: find what is wrong with a configuration before it runs."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from agent.annotation.place import look_at
from agent.assembly import intake_of, memory_of, open_source, owner_of
from agent.bundle import load_reference
from agent.cli.output import JsonFile, console, write_facts
from agent.cli.receivers import reach_alertmanagers, reach_grafana
from agent.config import FitConfig, RunConfig, load_config
from agent.encoder import Encoder
from agent.errors import LeadlineError, UsageError
from agent.fit import open_task, read_tables
from agent.inference import open_inference
from agent.listener import probe
from agent.payloads.formats import parts_of
from agent.sources.http.reach import reach as reach_http
from agent.sources.kafka.reach import reach as reach_kafka
from agent.state_store.inspection import Notice, inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.reference import Reference

Finding = tuple[str, "str | LeadlineError"]


def check(
    config: Annotated[Path, typer.Argument(help="A fit or a run configuration, YAML.")], json: JsonFile = None
) -> None:
    """Check a configuration, the files it names and the ports it wants; one line a finding.

    Ends with 0 if all is well or only to be noted, 1 if a check failed, 2 if the configuration itself is wrong.
    """
    findings = list(_check_run(config) if _is_run(config) else _check_fit(config))
    for subject, found in findings:
        console.print(f"{_mark(found)} {subject}:", end=" ")
        console.print(str(found), markup=False, soft_wrap=True)
    failures = sum(isinstance(found, LeadlineError) for _, found in findings)
    write_facts(json, {"findings": [_fact(subject, found) for subject, found in findings], "failed": failures})
    if failures:
        raise typer.Exit(1)


def _mark(found: str | LeadlineError) -> str:
    if isinstance(found, LeadlineError):
        return "[bold red]FAIL[/]"
    return "[yellow]note[/]" if isinstance(found, Notice) else "[green]ok[/]  "


def _fact(subject: str, found: str | LeadlineError) -> dict[str, Any]:
    ok, notice = not isinstance(found, LeadlineError), isinstance(found, Notice)
    return {"check": subject, "ok": ok, "notice": notice, "message": str(found)}


def _is_run(path: Path) -> bool:
    """Whether this is a run configuration: it names a reference. Anything unreadable is left to the loader."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    return isinstance(content, dict) and "reference" in content


def _found(subject: str, probe: Callable[[], str]) -> Finding:
    """What a probe says, or the error it ends with."""
    try:
        return subject, probe()
    except LeadlineError as error:
        return subject, error


def _check_fit(path: Path) -> Iterator[Finding]:
    config = load_config(path, FitConfig)
    yield "configuration", f"fits a reference for {config.model.name}"
    yield _found("encoder", lambda: _describe(Encoder.load(config.encoder, device=config.encoding.device)))
    if config.model.outputs != "head":
        yield _found("task model", lambda: _task(config))
    yield _found(
        "tables", lambda: ", ".join(f"{name} {len(table):,}" for name, table in read_tables(config).items())
    )


def _check_run(path: Path) -> Iterator[Finding]:
    config = load_config(path, RunConfig)
    yield "configuration", f"runs against {config.reference}"
    loaded: list[Reference] = []
    yield _found("reference", lambda: _load(config.reference, loaded))
    if loaded:
        yield _found("encoder", lambda: _models(config, loaded[0]))
        yield _found("source", lambda: _source(config, loaded[0]))
        if config.dead_letters is not None:
            yield _found("dead_letters", lambda: _letters(config))
        if config.state is not None:
            yield _found("state", lambda: _state(config, loaded[0]))
    annotation = config.annotation
    if annotation is not None:
        yield _found("annotation", lambda: look_at(annotation))
    yield _found("exporters.prometheus", lambda: _port(config))
    grafana, alertmanager = config.exporters.grafana, config.exporters.alertmanager
    if grafana is not None:
        yield _found("exporters.grafana", lambda: reach_grafana(grafana))
    if alertmanager is not None:
        yield _found("exporters.alertmanager", lambda: reach_alertmanagers(alertmanager))


def _describe(encoder: Encoder) -> str:
    return f"{encoder.name}, {encoder.dimension} dimensions, on {encoder.provider}"


def _task(config: FitConfig) -> str:
    model = config.model
    _, head = open_task(config)
    if model.task == "tokens":
        return "the logits of every token come with the tables"
    what = "outputs come with the tables" if model.path is None else f"runs {model.path}"
    return f"{what}, {'no head given' if head is None else f'head {model.head}'}"


def _load(path: Path, loaded: list[Reference]) -> str:
    reference = load_reference(path)
    loaded.append(reference)
    return f"{reference.id}, {len(reference.detectors)} detectors, {len(reference.domains)} reference domains"


def _models(config: RunConfig, reference: Reference) -> str:
    return _describe(open_inference(reference, config.reference, config.encoder, config.encoding).encoder)


def _source(config: RunConfig, reference: Reference) -> str:
    """Whether records can be read from there, without reading any."""
    source = config.source
    if source.kafka is not None:
        parts_of(source.kafka, reference.labels)
        return reach_kafka(source.kafka, source.kafka.topics, "source.kafka")
    if source.http is not None:
        parts_of(source.http, reference.labels)
        return reach_http(source.http)
    # Without `annotation`, which has a finding of its own.
    bare = config.model_copy(update={"annotation": None})
    open_source(bare, intake_of(bare, reference, memory_of(bare)), "", Event())
    return f"reads {source.file.path}" if source.file else ""


def _state(config: RunConfig, reference: Reference) -> str:
    """A check neither makes the database nor puts it aside."""
    path = config.state.path if config.state else Path()
    return inspect(path, owner_of(config, reference))


def _letters(config: RunConfig) -> str:
    letters = config.dead_letters
    assert letters is not None  # noqa: S101 - asked only where there are some
    if letters.file is not None:
        above = next(parent for parent in letters.file.absolute().parents if parent.exists())
        place = letters.file if letters.file.exists() else above
        if letters.file.is_dir() or not above.is_dir() or not os.access(place, os.W_OK):
            raise UsageError(f"dead_letters.file: {letters.file} cannot be written to, or is no file")
        return f"kept in {letters.file}"
    connection = letters.connection or config.source.kafka
    assert connection is not None and letters.topic is not None  # noqa: PT018, S101 - the configuration's own check
    return reach_kafka(connection, (letters.topic,), "dead_letters")


def _port(config: RunConfig) -> str:
    server = config.exporters.prometheus
    return probe(server.host, server.port, "metrics")

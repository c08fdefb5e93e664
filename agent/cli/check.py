"""`leadline check`: find what is wrong with a configuration before it runs."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from agent.assembly import expected_of, open_checkpoints
from agent.bundle import load_reference
from agent.cli.output import JsonFile, console, write_facts
from agent.config import FitConfig, RunConfig, load_config
from agent.encoder import Encoder
from agent.errors import LeadlineError, ServiceError, UsageError
from agent.fit import open_task, read_tables
from agent.inference import open_inference
from agent.loop import Clocks
from agent.sources.file import FileSource, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.reference import Reference

Finding = tuple[str, "str | LeadlineError"]


def check(
    config: Annotated[Path, typer.Argument(help="A fit or a run configuration, YAML.")], json: JsonFile = None
) -> None:
    """Check a configuration, the files it names and the ports it wants; one line a finding.

    Ends with 0 if all is well, 1 if a check failed, 2 if the configuration itself is wrong.
    """
    findings = list(_check_run(config) if _is_run(config) else _check_fit(config))
    for subject, found in findings:
        failed = isinstance(found, LeadlineError)
        console.print(f"[bold red]FAIL[/] {subject}:" if failed else f"[green]ok[/]   {subject}:", end=" ")
        console.print(str(found), markup=False, soft_wrap=True)
    failures = sum(isinstance(found, LeadlineError) for _, found in findings)
    write_facts(json, {"findings": [_fact(subject, found) for subject, found in findings], "failed": failures})
    if failures:
        raise typer.Exit(1)


def _fact(subject: str, found: str | LeadlineError) -> dict[str, Any]:
    return {"check": subject, "ok": not isinstance(found, LeadlineError), "message": str(found)}


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
        if config.state is not None:
            yield _found("state", lambda: _state(config, loaded[0]))
    yield _found("exporters.prometheus", lambda: _port(config))


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
    file = config.source.file
    FileSource(file, expected_of(reference, config), config.encoding.batch, Timing(wait=Event().wait))
    return f"reads {file.path}"


def _state(config: RunConfig, reference: Reference) -> str:
    """Opens the state where there is one; a check must not make the database."""
    path = config.state.path if config.state else Path()
    if path.exists():
        open_checkpoints(config, reference, Clocks())
        return f"goes on from {path}"
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UsageError(f"state.path: {path} cannot be made: {above} is not a directory that can be written to")
    return f"starts afresh in {path}"


def _port(config: RunConfig) -> str:
    server = config.exporters.prometheus
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        socket.create_server((server.host, server.port), family=family).close()
    except OSError as error:
        reason = "the port is already in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise ServiceError(f"cannot listen on {server.host}:{server.port}: {reason}") from error
    return f"{server.host}:{server.port} is free" if server.port else f"any free port of {server.host}"

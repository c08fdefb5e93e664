"""`leadline demo`: the whole path on real text, with a drift half-way that a person sees."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from agent.alert_report import Kind
from agent.assembly import assemble, estimator_of
from agent.cli.fit import fit as fit_command
from agent.cli.output import console, points
from agent.cli.run import Moments, run_agent, stopping
from agent.config import RunConfig, load_config
from agent.demo_texts import DRIFT, HALF, LABELS, write_demo_tables
from agent.encoder.fetch import fetch_encoder
from agent.errors import ServiceError, UsageError
from agent.listener import probe
from agent.logs import configure_logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.alert_report import Alerts
    from agent.assembly import Agent
    from agent.demo_texts import DemoTables
    from agent.records import Record
    from agent.reference import Reference
    from agent.report import DropEstimate
    from agent.scorer import Scored
    from agent.window_contents import Estimate, Window

ENCODER = "all-MiniLM-L6-v2"
# Records a second: slow enough to watch and to scrape.
RATE = 80
PORT = 9108
# What can be afforded to lose: the five points of the default.
MAX_DROP = 0.05

# Which lines of /metrics tell the story.
SHOWN = (
    r"^leadline_events_(received|processed)",
    r"^leadline_events_in_flight",
    r"^leadline_(shift_seen|annotate|annotation_items_needed)\{",
    r'^leadline_(depth_q|window_items)\{.*window="short"',
    r'^leadline_(accuracy_drop_ratio|estimate_inside_domains)\{.*window="long"',
    r'^leadline_ood_ratio\{detector="(msp|vim|knn|depth)".*window="short"',
)


def demo(
    out: Annotated[Path, typer.Option(help="Directory for everything the demo makes.")] = Path("demo"),
    rate: Annotated[int, typer.Option(min=1, help="Records a second of the replay.")] = RATE,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of /metrics; 0 takes a free one.")] = PORT,
    record: Annotated[Path | None, typer.Option(help="Also save what the terminal showed, as SVG.")] = None,
) -> None:
    """Fit a reference on real tweets, then replay a stream that turns into movie reviews half-way.

    Ends with the alert, the batch of items to label, and the loss of accuracy as estimated without labels, beside
    the one that is real.
    Downloads about 105 MB once. Takes about two minutes on two cores after that.
    """
    console.record = record is not None
    _check_place(out)
    _check_port(port)
    _say(1, f"The encoder: {ENCODER}, 8-bit ONNX, verified by sha256")
    fetch_encoder(
        ENCODER, out / "encoder", precision="int8", on_step=lambda step: console.print(f"[dim]  {step}[/]")
    )
    _say(2, "Real text: tweets, editorials, reviews of products, films and drugs")
    tables = write_demo_tables(out / "tables")
    _write_configs(out, tables, rate, port)
    _say(3, "leadline fit: train on tweets, check the estimates on other domains")
    fit_command(out / "fit.yaml", out / "reference")
    _say(4, f"leadline run: {HALF:,} tweets, then from {DRIFT:%H:%M} on {HALF:,} movie reviews, {rate} a second")
    shutil.rmtree(out / "annotation", ignore_errors=True)  # that of an earlier demo
    _replay(out / "run.yaml")
    console.print(f"\nEverything is in [bold]{out}/[/]: copy fit.yaml and run.yaml, and put your own tables in.")
    if record:
        # Without the fonts that rich links to: a picture must not fetch anything when it is looked at.
        picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)
        record.write_text(picture, encoding="utf-8")


def _check_place(out: Path) -> None:
    if out.exists() and not (out / "fit.yaml").exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty and not a demo's directory: choose another one with --out")


def _check_port(port: int) -> None:
    """ServiceError now rather than after the fit."""
    try:
        probe("127.0.0.1", port, "metrics")
    except ServiceError as error:
        raise ServiceError(
            f"the demo serves its metrics on 127.0.0.1:{port}, which is in use: choose another one with --port"
        ) from error


def _say(step: int, what: str) -> None:
    console.print(f"\n[bold cyan]{step}/4[/] [bold]{what}[/]")


def _write_configs(out: Path, tables: DemoTables, rate: int, port: int) -> None:
    """The two files a user would copy."""
    fit = {
        "model": {"name": "sentiment", "labels": list(LABELS), "outputs": "head"},
        "encoder": "./encoder",
        "source": {name: _inside(path, out) for name, path in tables.splits.items()},
        "domains": {name: _inside(path, out) for name, path in tables.domains.items()},
        "detectors": {"preset": "original"},
    }
    run = {
        "reference": "./reference",
        "source": {"file": {"path": _inside(tables.stream, out), "rate": rate}},
        "windows": {"pane": "5m", "short": "10m", "long": "30m", "min_items": 100, "lateness": "1s"},
        "estimate": {"every": "1s"},
        "alerts": {"max_drop": MAX_DROP, "false_alarms_per_month": 1},
        "annotation": {"path": "./annotation", "texts": True},
        "exporters": {"prometheus": {"host": "127.0.0.1", "port": port}},
    }
    for name, content in (("fit", fit), ("run", run)):
        text = f"# leadline {name} {name}.yaml{' --out reference' if name == 'fit' else ''}\n"
        (out / f"{name}.yaml").write_text(text + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _inside(path: Path, out: Path) -> str:
    return os.path.join(".", path.relative_to(out))  # noqa: PTH118 - pathlib drops the leading ./


class _Marked:
    """Scores as the agent does, and marks the predictions: the demo, unlike production, knows the labels."""

    def __init__(self, agent: Agent) -> None:
        self._score = agent.score
        self._labels = agent.reference.labels
        self._source = agent.reference.source.accuracy["test"]
        self._right: list[tuple[float, bool]] = []

    def __call__(self, records: Sequence[Record]) -> Scored:
        scored = self._score(records)
        for record, predicted in zip(records, scored.predicted.tolist(), strict=True):
            self._right.append((record.time, self._labels[predicted] == record.label))
        return scored

    def drop(self, window: Window) -> float:
        """The accuracy lost against the source's test rows, on the records of this window."""
        right = [right for time, right in self._right if window.start <= time < window.end]
        return self._source - sum(right) / len(right)


class _Watched:
    """Estimates as the agent does, and keeps what it said of each long window."""

    def __init__(self) -> None:
        self.made: list[tuple[Window, DropEstimate]] = []

    def __call__(self, reference: Reference, least: int) -> Estimate:
        estimate = estimator_of(reference, least)

        def watched(window: Window) -> DropEstimate:
            made = estimate(window)
            if window.window == "long":
                self.made.append((window, made))
            return made

        return watched


def _replay(path: Path) -> None:
    config = load_config(path, RunConfig)
    configure_logs()
    watched = _Watched()
    with stopping() as stop:
        agent = assemble(config, stop, watched)
        marked = _Marked(agent)
        last, _ = run_agent(replace(agent, score=marked), config, stop, Moments(_open_page, _show_metrics))
        if stop.is_set():
            raise typer.Exit(1)
    _show_alert(last.alerts, path.parent)
    _compare("Before the drift", [each for each in watched.made if each[0].end <= DRIFT.timestamp()], marked)
    _compare("After it", [each for each in watched.made if each[0].start >= DRIFT.timestamp()], marked)


def _open_page(address: str) -> None:
    """In a browser, where a person sits before one."""
    console.print(f"The status page: [bold]{address}/[/]")
    if sys.stdout.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        typer.launch(f"{address}/")


def _show_alert(alerts: Alerts, out: Path) -> None:
    """What on-call was told, and what to do next; the labels, which only the demo knows, are put beside it."""
    for episode in alerts.episodes:
        why = "accuracy is lost" if episode.kind is Kind.DROP else "nobody can tell what is lost"
        console.print(
            f"\n[bold red]The alert:[/] since {datetime.fromtimestamp(episode.since, UTC):%H:%M} {why}; "
            f"{episode.needed:,} labels are asked for."
        )
    for batch in alerts.batches:
        labels = _write_labels(Path(batch.path), out)
        console.print(
            f"{batch.items:,} items to label are in [bold]{batch.path}[/], for people and for Label Studio."
        )
        console.print(
            f"[dim]People would now label them. The demo knows the labels; see what they say:[/]\n"
            f"  leadline annotate import {out / 'run.yaml'} {labels}",
            soft_wrap=True,
        )


def _write_labels(batch: Path, out: Path) -> Path:
    """The true labels of a batch's items, as people would give them."""
    with (batch / "items.jsonl").open(encoding="utf-8") as items:
        asked = {json.loads(line)["id"] for line in items}
    with (out / "tables" / "stream.jsonl").open(encoding="utf-8") as stream:
        known = [json.loads(line) for line in stream]
    labels = out / f"labels-{batch.name}.jsonl"
    found = [{"id": each["id"], "label": each["label"]} for each in known if each["id"] in asked]
    labels.write_text("".join(f"{json.dumps(each)}\n" for each in found), encoding="utf-8")
    return labels


def _compare(when: str, made: Sequence[tuple[Window, DropEstimate]], marked: _Marked) -> None:
    """The last of these estimates, and what was lost on the very same records."""
    if not made:
        console.print(f"\n[bold]{when}:[/] no window was estimated; a lower --rate leaves time for it.")
        return
    window, found = made[-1]
    start, end = (f"{datetime.fromtimestamp(time, UTC):%H:%M}" for time in (window.start, window.end))
    console.print(f"\n[bold]{when}[/], {start} to {end}, {found.n:,} records")
    if found.reason:
        console.print(f"Nothing can be estimated: {found.reason}.", markup=False)
        return
    drop = points(found.drop.estimate, found.drop.low, found.drop.high)
    console.print(
        f"Estimated without labels: drop [bold]{drop}[/] points; "
        f"realised, from the labels that only the demo knows: [bold]{100 * marked.drop(window):+.1f}[/]."
    )


def _show_metrics(address: str) -> None:
    """What Prometheus would have scraped just now."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as response:  # noqa: S310 - our own server
        lines = response.read().decode().splitlines()
    console.print(f"\n[bold]From {address}/metrics[/]")
    for line in lines:
        if any(re.search(pattern, line) for pattern in SHOWN):
            console.print(f"  {line}", markup=False, soft_wrap=True)

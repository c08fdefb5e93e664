"""`leadline annotate`: what is to be labelled, out to the people who label it."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table as Columns

from agent.annotation.batch import ON_DEMAND
from agent.annotation.files import directory_of, found, read_batch, read_items, write_private
from agent.annotation.formats import json_lines, label_studio, labelling_config
from agent.annotation.labels import read_labels
from agent.annotation.term import Term
from agent.cli.annotate_now import Wanted, draw_now
from agent.cli.output import JsonFile, console, write_facts
from agent.config import RunConfig, load_config
from agent.errors import UsageError
from agent.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.alert_config import AnnotationConfig
    from agent.annotation.batch import Batch, Item

app = typer.Typer(
    help="Annotation batches: hand the items of one out, bring their labels back.", no_args_is_help=True
)


class Format(StrEnum):
    """How items are written."""

    JSONL = "jsonl"
    LABEL_STUDIO = "label-studio"


@app.command("export")
def export(  # noqa: PLR0913, PLR0917 - the options of a command
    config: Annotated[Path, typer.Argument(help="The run configuration, YAML.")],
    out: Annotated[Path | None, typer.Option(help="File to write; only you can read it.")] = None,
    episode: Annotated[
        str | None,
        typer.Option(
            help="Which batch: the id of its episode. If not said the newest, of an alert if there is one."
        ),
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="jsonl: one object an item. label-studio: tasks, and the labelling configuration beside them.",
        ),
    ] = Format.JSONL,
    texts: Annotated[
        Path | None,
        typer.Option(help="Table with `id` and `text`: texts are taken from it, so none need ever be kept."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the batches instead.")] = False,  # noqa: FBT002 - a flag
    now: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--now", help="Draw a batch now, without an episode, from what the agent has saved.")
    ] = False,
    of_slice: Annotated[str | None, typer.Option("--slice", help="With --now: of which slice.")] = None,
    count: Annotated[
        int | None, typer.Option("--items", min=1, help="With --now: how many items; else by alerts.precision.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Write the items of an annotation batch to a file, for people to label.

    Example: leadline annotate export run.yaml --out items.jsonl
    """
    annotation = annotation_of(config)
    if listed:
        _list(annotation.path, json)
        return
    if not now and (of_slice is not None or count is not None):
        raise UsageError("--slice and --items go with --now: a batch that is there was drawn already")
    if now and episode is not None:
        raise UsageError("--episode and --now exclude each other: --now draws a batch of its own")
    if out is None:
        raise UsageError(
            "--out is missing: the file to write, such as --out items.jsonl (or --list to list batches)"
        )
    if now:
        directory = draw_now(load_config(config, RunConfig), annotation, Wanted(of_slice, count))
    else:
        directory = chosen(annotation.path, episode)
    write_facts(json, _hand_out(directory, annotation.keep, out, form, texts))


def _hand_out(directory: Path, keep: float, out: Path, form: Format, texts: Path | None) -> dict[str, Any]:
    """Write the items of a batch to a file, with texts that are not older than this or from a table: its facts."""
    batch = read_batch(directory)
    # Texts that should be gone by now are not shown, whether or not an agent has run to delete them.
    term = Term(time.time(), keep)
    items = [term.allowed(item) for item in read_items(directory, batch)]
    if texts is not None:
        items = _joined(items, texts)
    places = _write(out, form, batch, items)
    shown = sum(item.text is not None for item in items)
    _say(batch, places, shown)
    return {**_facts(directory, batch), "files": [str(place) for place in places], "texts": shown}


def annotation_of(path: Path) -> AnnotationConfig:
    """The part `annotation` of a run configuration; UsageError where there is none."""
    annotation = load_config(path, RunConfig).annotation
    if annotation is None:
        raise UsageError(
            f"{path}: annotation: missing, so no batch is ever written. "
            "Add it, with a `path`: the directory for batches."
        )
    return annotation


def chosen(root: Path, episode: str | None) -> Path:
    """The directory of this episode's batch, or of the newest one. UsageError says which there are.

    One that was drawn on demand is the newest only where no alert has one.
    """
    batches = found(root)
    if not batches:
        raise UsageError(
            f"{root} holds no annotation batch yet. The agent writes one when it begins to ask for labels "
            "(an episode, `leadline_annotate` 1). To draw one now: --now."
        )
    if episode is None:
        return _newest(batches)
    directory = directory_of(root, episode)
    if directory not in batches:
        raise UsageError(
            f"{root} holds no batch of episode {episode}. There are: {', '.join(p.name for p in batches)}."
        )
    return directory


def _newest(batches: Sequence[Path]) -> Path:
    """The newest batch that an alert asked for, else the newest of all; says which it is of how many."""
    read = {path: read_batch(path) for path in batches}
    found = max(batches, key=lambda path: (read[path].kind != ON_DEMAND, read[path].created, path.name))
    if len(batches) > 1:
        alerts = "" if read[found].kind == ON_DEMAND else " that an alert asked for"
        console.print(f"Of {len(batches)} batches the newest{alerts}: {found.name}. Another one: --episode.")
    return found


def _joined(items: Sequence[Item], path: Path) -> list[Item]:
    """The items with the texts that the user's own table has for their ids; the others as they were."""
    table = read_table(path)
    table.need("id")
    pairs = table.pairs() or [None] * len(table)
    known = dict(zip(table.ids(), zip(table.texts(), pairs, strict=True), strict=True))
    joined = []
    for item in items:
        text, pair = known.get(item.id, (item.text, item.text_pair))
        joined.append(replace(item, text=text, text_pair=pair))
    if not any(item.id in known for item in items):
        raise UsageError(
            f"{path}: none of its ids is in the batch, such as {items[0].id!r}. Is it the right table?"
        )
    return joined


def _write(out: Path, form: Format, batch: Batch, items: Sequence[Item]) -> list[Path]:
    """The files written, which only their owner can read."""
    files = {out: json_lines(items)}
    if form is Format.LABEL_STUDIO:
        pairs = any(item.text_pair is not None for item in items)
        files = {out: label_studio(batch, items), out.with_suffix(".xml"): labelling_config(batch, pairs=pairs)}
    if len(files) == 1 and form is Format.LABEL_STUDIO:
        raise UsageError(
            f"{out}: .xml is for the labelling configuration that goes beside it. Choose another name."
        )
    for path, content in files.items():
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"{path} is there and is no plain file. Choose another name.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, content)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    return list(files)


def _say(batch: Batch, places: Sequence[Path], shown: int) -> None:
    console.print(f"{batch.items:,} items of episode {batch.episode}, slice {escape(batch.slice)}:", end=" ")
    console.print(" and ".join(map(str, places)), markup=False, soft_wrap=True)
    if batch.short:
        console.print(
            f"[yellow]{batch.needed:,} labels would give ±{100 * batch.precision:g} points:[/] "
            "there were no more items to draw, or `annotation.most_items` or --items is lower."
        )
    if shown < batch.items:
        missing = "The items have" if not shown else f"{batch.items - shown:,} items have"
        console.print(f"{missing} no text: find it by the id, or give your own table with --texts.")


def _list(root: Path, json: Path | None) -> None:
    batches = sorted(((read_batch(path), path) for path in found(root)), key=lambda each: -each[0].created)
    columns = Columns("written", "episode", "slice", "why", "items", "labelled", "texts", box=None)
    facts = []
    for batch, path in batches:
        told = _facts(path, batch)
        facts.append(told)
        columns.add_row(
            f"{told['created'][:10]} {told['created'][11:16]}",
            batch.episode,
            escape(batch.slice),
            batch.kind,
            f"{batch.items:,}",
            f"{told['labelled']:,}",
            "yes" if batch.texts else "no",
        )
    if batches:
        console.print(columns)
    else:
        console.print(f"{root} holds no annotation batch yet.", markup=False, soft_wrap=True)
    write_facts(json, {"batches": facts})


def _facts(directory: Path, batch: Batch) -> dict[str, Any]:
    written = datetime.fromtimestamp(batch.created, UTC).isoformat(timespec="seconds")
    return {
        "episode": batch.episode,
        "slice": batch.slice,
        "kind": batch.kind,
        "model": batch.model,
        "path": str(directory),
        "created": written,
        "items": batch.items,
        "needed": batch.needed,
        "labelled": len(read_labels(directory)),
    }

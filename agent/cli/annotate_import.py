"""`leadline annotate import`: what the labels of a batch say, and the reference that they make."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from agent.annotation.batch import ON_DEMAND, TOKENS
from agent.annotation.files import directory_of, found, read_arrays, read_batch, read_items
from agent.annotation.labels import append_labels, read_labels
from agent.bundle import check_place, load_reference, load_taught, save_reference
from agent.cli.annotate import annotation_of
from agent.cli.annotate_words import facts_of, offer_facts, show, show_offer
from agent.cli.output import JsonFile, bars, console, write_facts
from agent.config import RunConfig, load_config
from agent.errors import UsageError
from agent.label_file import check_labels, fitting, read_label_file
from agent.new_version import new_version
from agent.realised import account_of, check_reference
from agent.records import Label
from agent.reference import Version
from agent.target_score import FOLDS
from agent.verdict import verdict

if TYPE_CHECKING:
    from agent.annotation.batch import Arrays
    from agent.label_file import Given
    from agent.realised import Account
    from agent.reference import Reference
    from agent.verdict_report import Verdict


@dataclass(frozen=True)
class Imported:
    """How many labels of a file are new, how many replaced another one, and how many said what was known."""

    new: int
    changed: int
    known: int
    empty: int


def import_labels(  # noqa: PLR0913, PLR0917 - the options of a command
    config: Annotated[Path, typer.Argument(help="The run configuration, YAML.")],
    labels: Annotated[
        Path,
        typer.Argument(help="Labels: .jsonl, .csv or .parquet with `id` and `label`, or .json of Label Studio."),
    ],
    episode: Annotated[
        str | None,
        typer.Option(help="Which batch: the id of its episode. The one with these ids if not said."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write a new version of the reference, with this window as a domain.")
    ] = None,
    force: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--force", help="Write it even if it does worse, or over another reference.")
    ] = False,
    json: JsonFile = None,
) -> None:
    """Bring the labels of an annotation batch back, and say whether the drift costs too much.

    Importing a file again changes nothing. Exit code 1 if a new version was asked for and does worse.
    Example: leadline annotate import run.yaml labels.csv --out reference-2
    """
    checked = load_config(config, RunConfig)
    root = annotation_of(config).path
    if out is not None:
        check_new_place(out, checked.reference)
    given = read_label_file(labels)
    directory = batch_of(root, given, episode)
    loaded = (load_reference if out is None else load_taught)(checked.reference)
    if out is not None and not force:
        check_place(out, Version(loaded.id, read_batch(directory).episode))
    imported = _import(directory, given, labels, loaded)
    case = _judged(loaded, directory, checked.alerts.max_drop)
    _say(imported, directory.name)
    show(case.told)
    version = None if out is None else _taught(case, checked, out, force=force)
    write_facts(json, {"imported": vars(imported), "version": version} | facts_of(case.told, loaded))
    if version is not None and not version["written"]:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Case:
    """A batch whose labels were held against a reference, and what they say."""

    reference: Reference
    account: Account
    arrays: Arrays
    told: Verdict


def _judged(reference: Reference, directory: Path, limit: float) -> _Case:
    """What the labels of a batch say now, with bars meanwhile."""
    account = account_of(reference, directory)
    arrays = read_arrays(directory, account.batch)
    with bars() as progress:
        told = verdict(
            reference, account, arrays, limit, lambda done: progress("train on these items", done, FOLDS)
        )
    return _Case(reference, account, arrays, told)


def _taught(case: _Case, config: RunConfig, out: Path, *, force: bool) -> dict[str, Any]:
    """The facts of the version that learns from the batch: shown, and written if it does no worse, or by force."""
    with bars() as progress:
        offer = new_version(
            case.reference, case.account, case.arrays, lambda done, total: progress("backtest", done, total)
        )
    place, identity = None if offer.worse and not force else out, ""
    if place is not None:
        identity = save_reference(_moved(offer.reference, config.reference, place, config.encoder), place)
    show_offer(offer, case.told, place)
    return offer_facts(offer, identity)


def check_new_place(out: Path, reference: Path) -> None:
    """UsageError where a new version must not be written: over the old one, or over something else."""
    if out.resolve() == reference.resolve():
        raise UsageError(f"--out {out}: the old version is there, which agents may be running on. Choose another.")
    check_place(out)


def batch_of(root: Path, given: list[Given], episode: str | None) -> Path:
    """The directory of the batch: of this episode, or the only one that has an item by each of these ids.

    Where several have them, the one that an alert asked for. UsageError says which batches there are.
    """
    batches = found(root)
    names = ", ".join(path.name for path in batches)
    if not batches:
        raise UsageError(f"{root} holds no annotation batch yet: the agent writes one when an episode begins")
    if episode is not None:
        directory = directory_of(root, episode)
        if directory not in batches:
            raise UsageError(f"{root} holds no batch of episode {episode}. There are: {names}.")
        return directory
    if len(batches) == 1:
        return batches[0]
    whole = [path for path in batches if _has_all(path, given)]
    whole = [path for path in whole if read_batch(path).kind != ON_DEMAND] or whole
    if len(whole) == 1:
        return whole[0]
    several = ", ".join(path.name for path in whole)
    reason = f"{several} have all these ids" if whole else f"none of {names} has all these ids"
    raise UsageError(f"which batch these labels are for cannot be told: {reason}. Say it with --episode.")


def _has_all(directory: Path, given: list[Given]) -> bool:
    ids = {item.id for item in read_items(directory, read_batch(directory))}
    return all(fitting(each.id, ids) in ids for each in given)


def _import(directory: Path, given: list[Given], path: Path, reference: Reference) -> Imported:
    """Append what is new. UsageError, with nothing imported, if a label or an id is not right."""
    batch = read_batch(directory)
    if batch.task == TOKENS:
        raise UsageError(
            "the model labels tokens, and a batch does not hold what it said of each: write labels and logits "
            "into a table, and use `leadline evaluate`"
        )
    check_reference(reference, batch, directory)
    items = read_items(directory, batch)
    checked = check_labels(given, (item.id for item in items), batch.labels, path)
    before = read_labels(directory)
    now = time.time()
    try:
        append_labels(directory, [Label(name, label, now) for name, label in checked.labels.items()])
    except OSError as error:
        raise UsageError(f"{directory}: labels cannot be written: {error.strerror}") from error
    other = [name for name, label in checked.labels.items() if name in before and before[name].label != label]
    new = len(checked.labels.keys() - before.keys())
    known = len(checked.labels) - new - len(other) + checked.repeated
    return Imported(new=new, changed=len(other), known=known, empty=checked.empty)


def _moved(reference: Reference, old: Path, new: Path, encoder: Path | None) -> Reference:
    """The reference as it must be written at its new place: its models stay where they are."""

    def seen(path: Path) -> str:
        return os.path.relpath(path.resolve(), new.resolve())

    task, place = reference.task, encoder or old / reference.encoder.path
    return replace(
        reference,
        encoder=replace(reference.encoder, path=seen(place)),
        task=replace(task, path=seen(old / task.path)) if task.path else task,
    )


def _say(imported: Imported, episode: str) -> None:
    parts = [f"{imported.new:,} new labels for episode {episode}"]
    parts += [f"{imported.changed:,} in the place of another"] * (imported.changed > 0)
    parts += [f"{imported.known:,} known before"] * (imported.known > 0)
    parts += [f"{imported.empty:,} items without a label"] * (imported.empty > 0)
    console.print(escape(", ".join(parts) + "."))

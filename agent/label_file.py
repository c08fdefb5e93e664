"""A file of labels for a batch: a table with `id` and `label`, or what Label Studio exports as JSON or CSV."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent.errors import UsageError
from agent.records import LONGEST_ID
from agent.tables import ITEM_ID, read_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

# Enough to see what is wrong with a file.
MOST_FINDINGS = 20
# Longer names are cut in findings.
_SHOWN = 60


@dataclass(frozen=True)
class Given:
    """One answer: the row of a table, or a task of Label Studio; `label` is None where there is none."""

    where: str
    id: str | None
    label: str | None


@dataclass(frozen=True)
class Checked:
    """The labels by id, how many rows said what another had said, and how many items have no label yet."""

    labels: dict[str, str]
    repeated: int
    empty: int


def read_label_file(path: Path) -> list[Given]:
    """Every answer of a file, in order. UsageError if it cannot be read or is something else."""
    if path.suffix == ".json":
        return list(_of_tasks(path, _tasks(path)))
    table = read_table(path)
    key = ITEM_ID if table.has(ITEM_ID) else "id"
    table.need(key, "label")
    ids, labels = (table.strings(name) or [None] * len(table) for name in (key, "label"))
    return [Given(f"row {row}", *pair) for row, pair in enumerate(zip(ids, labels, strict=True), start=1)]


def check_labels(given: Sequence[Given], known: Iterable[str], names: Sequence[str], path: Path) -> Checked:
    """The labels of a file for a batch with these ids. UsageError with every finding and its row, if there is one.

    Findings are: no id, an id that the batch does not have, a label that the model does not know, and two
    different labels for one id. Blanks around an id or a label that is known without them do not count.
    """
    ids, classes = set(known), set(names)
    first: dict[str, Given] = {}
    findings, repeated, empty = [], 0, 0
    for each in (replace(each, id=fitting(each.id, ids), label=fitting(each.label, classes)) for each in given):
        finding = _finding(each, ids, classes, names)
        before = first.get(each.id or "")
        if finding:
            findings.append(finding)
        elif each.label is None or each.id is None:
            empty += 1
        elif before is None:
            first[each.id] = each
        elif before.label == each.label:
            repeated += 1
        else:
            findings.append(
                f"{each.where}: {_shown(each.id)} is labelled {_shown(each.label)}, but in {before.where} "
                f"{_shown(before.label)}. Decide for one."
            )
    if findings:
        more = len(findings) - MOST_FINDINGS
        lines = [f"{path}: {finding}" for finding in findings[:MOST_FINDINGS]]
        lines += [f"{path}: and {more} more findings"] * (more > 0)
        raise UsageError("\n".join([*lines, "No label was imported."]))
    return Checked({name: each.label for name, each in first.items() if each.label is not None}, repeated, empty)


def fitting(name: str | None, known: Collection[str]) -> str | None:
    """The known name that is meant: without the blanks around it where it is not known as it is."""
    if name is None or name in known or name.strip() not in known:
        return name
    return name.strip()


def _finding(each: Given, ids: set[str], classes: set[str], names: Sequence[str]) -> str:
    if each.id is None:
        return f"{each.where} has no id"
    if each.id not in ids:
        return f"{each.where}: the batch has no item {_shown(each.id)}"
    if each.label is not None and each.label not in classes:
        return (
            f"{each.where} has label {_shown(each.label)}, which the model does not know. "
            f"Known labels: {', '.join(names)}"
        )
    return ""


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _tasks(path: Path) -> list[Any]:
    try:
        tasks = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON") from error
    if not isinstance(tasks, list):
        raise UsageError(f"{path}: not an export of Label Studio: expected a list of tasks (JSON or JSON-MIN)")
    if not tasks:
        raise UsageError(f"{path}: there are no labels: the list of tasks is empty")
    return tasks


def _of_tasks(path: Path, tasks: Sequence[Any]) -> Iterator[Given]:
    """The answers of a JSON or JSON-MIN export; a task without annotations is an item without a label."""
    for number, task in enumerate(tasks, start=1):
        where = f"task {number}"
        if not isinstance(task, dict):
            raise UsageError(f"{path}: {where} is no object: not an export of Label Studio")
        if "annotations" not in task:
            yield Given(where, _name(task), _minimal(path, where, task))
            continue
        data = task.get("data")
        name = _name(data) if isinstance(data, dict) else None
        found: list[str | None] = [*_annotated(path, where, task["annotations"])]
        yield from (Given(where, name, label) for label in found or [None])


def _minimal(path: Path, where: str, task: dict[str, Any]) -> str | None:
    """The label of a task of JSON-MIN, which has the fields of `data` and one for each question."""
    if "label" not in task:
        return None
    return _choice(path, where, task["label"])


def _annotated(path: Path, where: str, annotations: object) -> Iterator[str]:
    """One label for each annotation that was not cancelled."""
    for annotation in annotations if isinstance(annotations, list) else []:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        for result in annotation.get("result") or []:
            if not isinstance(result, dict) or result.get("type") != "choices":
                raise UsageError(f"{path}: {where}: not a choice of one label: {_shown(_kind(result))}")
            label = _choice(path, where, result.get("value"))
            if label is not None:
                yield label


def _choice(path: Path, where: str, value: object) -> str | None:
    """The one label in what Label Studio holds for a question."""
    choices = value.get("choices") if isinstance(value, dict) else value
    if isinstance(choices, str):
        return choices
    if choices is None or choices == []:
        return None
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], str):
        return choices[0]
    raise UsageError(f"{path}: {where}: expected one label, found {_shown(choices)}")


def _kind(result: object) -> object:
    return result.get("type") if isinstance(result, dict) else result


def _name(facts: dict[str, Any]) -> str | None:
    """An item's id as records bear it: text, or a number as text."""
    value = facts.get(ITEM_ID, facts.get("id"))
    if isinstance(value, bool) or not isinstance(value, str | int) or len(str(value)) > LONGEST_ID:
        return None
    return str(value)

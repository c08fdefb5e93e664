"""The labels of a batch as they come back: lines appended to one file, of which the last of an id counts.

Their order decides and not their times: a clock may have been set back between two of them.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING

from agent.annotation.files import LABELS
from agent.annotation.formats import one_line
from agent.errors import ArtefactError, UsageError
from agent.records import Label

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def read_labels(directory: Path) -> dict[str, Label]:
    """The last label of each id. ArtefactError naming the line that is not one.

    A last line that was cut short, as by a crash, was never there.
    """
    path = directory / LABELS
    newest: dict[str, Label] = {}
    for number, line in enumerate(_whole(_bytes(path)).splitlines(), start=1):
        if not line.strip():
            continue
        label = _label(line)
        if label is None:
            raise ArtefactError(
                f"{path}: line {number} is no label: expected id, label and time. Remove or mend it."
            )
        newest[label.id] = label
    return newest


def append_labels(directory: Path, labels: Iterable[Label]) -> None:
    """Append those labels that say something new, and have them on the disk.

    One that repeats the last of its id changes nothing, nor does one that was filed before, with its time: so a
    source that reads its labels again undoes nothing that was said since. OSError if the disk refuses.
    """
    path = directory / LABELS
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # goes with the file: others append too
        before = file.read()
        whole = _whole(before)
        content = _new_lines(labels, whole)
        if not content:
            return
        if len(whole) < len(before):  # a crash cut the last line short
            file.truncate(len(whole))
        elif before and not before.endswith(b"\n"):
            content = b"\n" + content
        file.seek(0, os.SEEK_END)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _new_lines(labels: Iterable[Label], before: bytes) -> bytes:
    """Lines for what is new. Labels in damaged lines are not known: better one filed twice than not at all."""
    filed = [label for line in before.splitlines() if (label := _label(line)) is not None]
    known, newest = set(filed), {label.id: label.label for label in filed}
    lines = []
    for label in labels:
        if label not in known and label.label != newest.get(label.id):
            newest[label.id] = label.label
            lines.append(one_line({"id": label.id, "label": label.label, "time": label.time}) + b"\n")
    return b"".join(lines)


def _whole(content: bytes) -> bytes:
    """Without a last line that was cut short; one that lacks nothing but its end stays."""
    last = content.rfind(b"\n") + 1
    tail = content[last:]
    return content[:last] if tail.strip() and _label(tail) is None else content


def _label(line: bytes) -> Label | None:
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    name, label, time = facts.get("id"), facts.get("label"), facts.get("time")
    if not isinstance(name, str) or isinstance(time, bool) or not isinstance(time, int | float):
        return None
    if isinstance(label, list) and label and all(isinstance(each, str) for each in label):
        return Label(name, tuple(label), float(time))
    return Label(name, label, float(time)) if isinstance(label, str) else None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error

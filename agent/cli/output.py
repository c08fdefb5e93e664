"""What every command prints with: a console, progress bars, errors, and the JSON facts."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.progress import TaskID

    from agent.errors import LeadlineError

console = Console(highlight=False)
Bundle = Annotated[Path, typer.Argument(help="A reference that `leadline fit` wrote.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the facts to this file, as JSON.")]


def points(estimate: float, low: float, high: float) -> str:
    """A drop and its bounds in percentage points, escaped for the console.

    >>> print(points(0.052, 0.011, 0.0949).replace(chr(92), ""))
    +5.2 [+1.1, +9.5]
    """
    return f"{100 * estimate:+.1f} \\[{100 * low:+.1f}, {100 * high:+.1f}]"


def complain(error: LeadlineError) -> None:
    """Print an error to standard error, one line a finding."""
    for line in str(error).splitlines():
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {escape(line)}", soft_wrap=True)


def write_facts(path: Path | None, facts: Mapping[str, Any]) -> None:
    """Write the facts as JSON where a file was asked for."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_known(facts), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error


def _known(value: Any) -> Any:  # noqa: ANN401 - walks any JSON-like value
    """The same facts with null for what is not known: JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Bars:
    """Progress bars by stage: one appears when its stage first reports."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` of this stage are finished."""
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._tasks[stage], completed=done)


@contextmanager
def bars() -> Iterator[Bars]:
    """Progress bars on the console while the block runs."""
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        yield Bars(progress)

"""A changed configuration taken up while the agent runs: on SIGHUP, whole or not at all."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from agent.config import RunConfig, load_config
from agent.errors import LeadlineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from threading import Event

    from agent.report import Upkeep

# What can change while the agent runs. Anything else says what is read, or what the numbers kept mean.
LIVE = ("windows.min_items", "estimate.every", "state.every", "alerts.", "exporters.")


class Reloads:
    """Takes up the file at `path` once `asked` is set, by handing the new configuration to `apply`.

    A file that cannot be used, or that changes what needs a restart, leaves the old configuration in force.
    """

    def __init__(
        self,
        path: Path,
        config: RunConfig,
        apply: Callable[[RunConfig], None],
        asked: Event,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._config = config
        self._apply = apply
        self._asked = asked
        self._epoch = epoch
        self._ok = True
        self._time = epoch()

    def poll(self) -> None:
        """Read the file if `asked` was set since the last call. Called between batches."""
        if not self._asked.is_set():
            return
        self._asked.clear()
        log = structlog.get_logger()
        try:
            changed = self._take_up()
        except LeadlineError as error:
            self._ok = False
            log.error("reload_failed", problem=str(error), meaning="the old configuration stays in force")  # noqa: TRY400
        else:
            self._ok = True
            self._time = self._epoch()
            log.info("reloaded", changed=changed)

    def tell(self, upkeep: Upkeep) -> Upkeep:
        """The same upkeep, with how reloading went."""
        return replace(upkeep, reload_ok=self._ok, reloaded=self._time)

    def _take_up(self) -> list[str]:
        """The keys that changed. UsageError if one of them needs a restart."""
        new = load_config(self._path, RunConfig)
        changed = list(changes(self._config.model_dump(), new.model_dump()))
        fixed = [key for key in changed if not key.startswith(LIVE)]
        if fixed:
            raise UsageError(f"{self._path}: a change of {', '.join(fixed)} needs a restart of the agent")
        self._apply(new)
        self._config = new
        return changed


def changes(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The dotted keys whose values differ.

    >>> list(changes({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}))
    ['a.c']
    """
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from changes(before, after, f"{above}{key}.")
        elif before != after:
            yield above + key

"""A process that kills itself at a chosen step of what the state store does, and one whose disk is full.

`python -m tests.agent.killed SCENARIO ROOT` forks once a step: the child `n` works in `ROOT/n/` and dies with
SIGKILL before its n-th step, a step being every SQL statement, and every file opened, renamed, deleted or locked
up. The last one lives. Forked from here, because this process has one thread and nothing open.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.checkpoints import Checkpoints
from agent.errors import ServiceError
from tests.agent.state_bench import GOLDEN, HOUR, OWNER, Parts, filled, step

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = {"open", "os.rename", "os.remove", "os.chmod", "sqlite3.connect"}


def begin(path: Path) -> None:
    """Make a new state and save into it."""
    with closing(Checkpoints(path, 10, OWNER)) as store:
        store.save(filled(0, 1))


def save(path: Path) -> None:
    """Go on from a state and save what changed."""
    with closing(Checkpoints(path, 10, OWNER)) as store:
        parts = Parts()
        store.restore(parts)
        for number in (2, 30, 31):
            step(parts, number)
        store.save(parts)


def opened(path: Path) -> None:
    """Go on from an older schema version."""
    with closing(Checkpoints(path, 10, OWNER)) as store:
        store.restore(Parts())


def another(path: Path) -> None:
    """Find the state of another owner, and begin anew."""
    with closing(Checkpoints(path, 10, "reference b", lambda: float(HOUR))) as store:
        store.restore(Parts())


def full(path: Path) -> None:
    """Fail to save on a full disk, and save once there is space."""
    with closing(Checkpoints(path, 10, OWNER)) as store:
        parts = Parts()
        store.restore(parts)
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        for number, space in enumerate((0, 1, 4096, 20_000)):
            step(parts, 2 + number)
            log = path.with_name(f"{path.name}-wal")
            size = log.stat().st_size if log.exists() else 0
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + space, most))
            try:
                store.save(parts)
            except ServiceError:
                pass
            else:
                raise AssertionError("the disk was not full")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        assert store.failures == 4
        store.save(parts)


SCENARIOS: dict[str, tuple[Callable[[Path], None], str]] = {
    "begin": (begin, ""),
    "save": (save, "saved"),
    "upgrade": (opened, "schema-2.sqlite"),
    "another": (another, "saved"),
    "full": (full, "saved"),
}


def _die_at(last: int) -> None:
    """Kill this process before its step of this number."""
    steps = 0

    def count(_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 - as the real one
        database = really_connect(*arguments, **options)
        database.set_trace_callback(count)
        return database

    really_connect, sqlite3.connect = sqlite3.connect, connect
    sys.addaudithook(lambda event, _: count(event) if event in FILES else None)


def _first(scenario: str, place: Path) -> None:
    """Lay down what the scenario begins with."""
    place.mkdir(parents=True)
    _, start = SCENARIOS[scenario]
    if start == "saved":
        begin(place / "state.db")
    elif start:
        shutil.copyfile(GOLDEN / start, place / "state.db")


def _status(scenario: str, path: Path, last: int) -> int:
    """Run the scenario in a child that dies at this step; how it ended."""
    child = os.fork()
    if child == 0:
        try:
            _die_at(last)
            SCENARIOS[scenario][0](path)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - a child must not go on as its parent
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(scenario: str, root: Path, *, kills: bool) -> int:
    """The steps it took; 0 if a child ended in another way than it should."""
    number = 0
    _first(scenario, root / "first")
    while True:
        number += 1
        place = shutil.copytree(root / "first", root / str(number))
        status = _status(scenario, place / "state.db", number if kills else -1)
        if status != -signal.SIGKILL:
            return number if status == 0 else 0


if __name__ == "__main__":
    sys.stdout.write(f"{main(sys.argv[1], Path(sys.argv[2]), kills=sys.argv[1] != 'full')}\n")

"""Programs that tests start: on free ports, and ended by the system when the test run ends, however it ends."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from agent.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HOST = "127.0.0.1"
# Below the range from which the system takes the ports of outgoing connections: while a program is down, no client
# of it, itself included, can be given its port.
PORTS = range(20_000, 30_000)
# The system signals the end of the thread that started a process, not of its whole program: this thread lives as
# long as the program, whichever thread of a test starts the child.
STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")


def spawn(command: Sequence[object], log: Path) -> subprocess.Popen[bytes]:
    """Start a program that writes all it says to the end of `log`."""
    return STARTER.submit(_spawn, [*map(str, command)], log).result()


def free_ports(count: int) -> list[int]:
    """So many ports that nobody has. ServiceError if there are fewer."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(PORTS, len(PORTS)):
            try:
                held.enter_context(socket.socket()).bind((HOST, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise ServiceError(f"fewer than {count} ports from {PORTS.start} to {PORTS.stop} are free")


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    # Where setpriv is missing (not Linux), only a run that ends in good order stops its children.
    setpriv = shutil.which("setpriv")
    tied = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    with log.open("ab") as out:
        # A session of its own: Ctrl-C in a terminal is for us, who then stop it.
        return subprocess.Popen(
            [*tied, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

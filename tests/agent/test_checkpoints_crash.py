"""Killed at each step of what the state store does: what is found is the state before the step, or after it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.checkpoints import Checkpoints
from tests.agent.state_bench import LACKS, OWNER, Parts, filled, golden, held, step

PROJECT = Path(__file__).parents[2]
AFTER = (0, 1, 2, 30, 31)


def steps_of(scenario: str, root: Path) -> int:
    """Run the scenario once a step, each time killed one step later; how many steps it took to live."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.agent.killed", scenario, str(root)],
        cwd=PROJECT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    *_, steps = done.stdout.splitlines()  # after the log
    assert steps != "0", done.stderr
    return int(steps)


def restarted(path: Path, owner: str = OWNER) -> tuple[dict[str, Any], dict[str, int]]:
    """What the next start finds, and what it puts aside."""
    parts = Parts()
    with closing(Checkpoints(path, 10, owner)) as store:
        store.restore(parts)
        return held(parts), {reason: count for reason, count in store.quarantined.items() if count}


def found(root: Path, steps: int, *whole: dict[str, Any]) -> list[int]:
    """Which of these states each restart found, in the order of the steps; nothing was put aside."""
    places = []
    for number in range(1, steps + 1):
        content, aside = restarted(root / str(number) / "state.db")
        assert not aside
        places.append(whole.index(content))
    return places


def test_killed_at_any_step_of_a_save(tmp_path: Path) -> None:
    """Before the commit it is the state before, from then on the state after, each exactly."""
    steps = steps_of("save", tmp_path)
    after = filled(0, 1)
    for number in AFTER[2:]:
        step(after, number)
    places = found(tmp_path, steps, held(filled(0, 1)), held(after))
    assert steps > 50
    assert places == sorted(places)
    assert set(places) == {0, 1}


def test_killed_at_any_step_of_a_first_start(tmp_path: Path) -> None:
    """There is no state yet, or an empty one, or the first checkpoint; and no reason to put anything aside."""
    steps = steps_of("begin", tmp_path)
    places = found(tmp_path, steps, held(Parts()), held(filled(0, 1)))
    assert steps > 50
    assert places == sorted(places)
    assert set(places) == {0, 1}


def test_killed_at_any_step_of_an_upgrade(tmp_path: Path) -> None:
    """The older state is carried over at the next start, or has been."""
    steps = steps_of("upgrade", tmp_path)
    assert steps > 50
    assert set(found(tmp_path, steps, held(golden()) | LACKS[2])) == {0}


def test_killed_at_any_step_of_putting_a_state_aside(tmp_path: Path) -> None:
    """The next start finds the state where it was, to be put aside then, or a new one; never half of one.

    Its texts are gone whenever it is put aside.
    """
    steps = steps_of("another", tmp_path)
    asides = []
    for number in range(1, steps + 1):
        path = tmp_path / str(number) / "state.db"
        content, aside = restarted(path, "reference b")
        assert content == held(Parts())
        (whole,) = path.parent.glob("*.quarantine-*-other_owner")
        assert restarted(whole)[0] == held(filled(0, 1)) | {"texts": {}, "halves": ()}
        asides.append(sum(aside.values()))
    assert asides == sorted(asides, reverse=True)
    assert set(asides) == {0, 1}


def test_a_disk_that_fills_up_in_the_middle_of_a_save(tmp_path: Path) -> None:
    """A file that can grow no further makes saves fail at several points; with space, all of it is saved."""
    assert steps_of("full", tmp_path) == 1
    assert found(tmp_path, 1, held(filled(0, 1, 2, 3, 4, 5))) == [0]

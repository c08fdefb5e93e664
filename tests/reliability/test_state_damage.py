"""A state that was damaged between two runs is put aside, said so, and never stops the agent."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tests.reliability.agents import running
from tests.reliability.oracle import items
from tests.reliability.scale import FINDINGS, chance, times
from tests.reliability.traffic import Log, Traffic, hours_ago, produce

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.reliability.stage import Stage

QUARANTINED = "leadline_state_quarantined_total"
NUMBER = 150


def _truncate(path: Path, moments: random.Random) -> None:
    os.truncate(path, moments.randrange(1, path.stat().st_size))


def _empty(path: Path, moments: random.Random) -> None:
    del moments
    os.truncate(path, 0)


def _flip(path: Path, moments: random.Random) -> None:
    """A bit of a row that is in use: what SQLite itself would not notice."""
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as database:
        (pane,) = database.execute("SELECT content FROM panes LIMIT 1").fetchone()
    place = content.index(pane[:32]) + moments.randrange(32)
    content[place] ^= 1 << moments.randrange(8)
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {"truncate": _truncate, "empty": _empty, "flip": _flip}


def test_a_damaged_state_is_put_aside(stage: Stage) -> None:
    """Cut short, emptied or with one bit flipped, it is quarantined once; the agent counts on and starts again."""
    config, state = stage.config(), stage.root / "run.sqlite"
    traffic = Traffic(chance("damage"), hours_ago(), twice=0.0)
    moments, counted = chance("damage moments"), Log([], {}, 0)
    produce(stage.broker, stage.topic, traffic.messages(NUMBER), traffic.chance)
    with running(config) as agent:
        stage.wait_until_settled()
        agent.stop()
    for _ in range(times(1, 0.1)):
        for name, damage in DAMAGE.items():
            before = Log.of(stage.broker, stage.topic).records
            damage(state, moments)
            with running(config) as agent:
                reasons = agent.metrics.now().by(QUARANTINED, "reason")
                produce(stage.broker, stage.topic, traffic.messages(NUMBER), traffic.chance)
                stage.wait_until_settled()
                agent.stop()
            assert sum(reasons.values()) == 1, f"{name}: {reasons}"
            assert agent.said("state put aside, a new one is begun"), name
            # What was counted before is in the file that was put aside; what the group had read is not read again.
            counted = Log.of(stage.broker, stage.topic)
            stage.check_panes([record for record in counted.records if record not in before])
            FINDINGS.say(f"state damage: {name}: put aside as {', '.join(reasons)}, counting went on")
    with running(config) as agent:
        assert agent.metrics.total(QUARANTINED) == 0, "a crash loop: the new state was put aside as well"
        agent.stop()
    assert items(stage.panes()) == sum(record not in before for record in counted.records)

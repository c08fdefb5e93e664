"""What was decided, as text: episodes and the evidence of each slice, number for number."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.alert_report import Episode, Kind, Outcome
from agent.interval import Interval
from agent.watch import Acquittal, Watch
from detectors.evidence import Evidence

if TYPE_CHECKING:
    from agent.state_store.rows import Row


# What of a watch is more than a number.
PARTS = {"evidence", "acquittal"}


def episode_row(episode: Episode) -> Row:
    """All of an episode."""
    return (json.dumps(asdict(episode)),)


def read_episode(content: str) -> Episode:
    """What `episode_row` wrote; ValueError, KeyError or TypeError if it is something else."""
    found: dict[str, Any] = json.loads(content)
    return Episode(
        **found
        | {
            "kind": Kind(found["kind"]),
            "outcome": Outcome(found["outcome"]),
            "drop": Interval(**found["drop"]),
            "outside": tuple(found["outside"]),
        }
    )


def watch_row(watch: Watch) -> Row:
    """All of what is known of a slice; floats in JSON come back as they were."""
    known = {item.name: getattr(watch, item.name) for item in fields(watch) if item.name not in PARTS}
    acquittal = None if watch.acquittal is None else asdict(watch.acquittal)
    stakes = {"logs": watch.evidence.logs.tolist(), "since": watch.evidence.since.tolist()}
    return (json.dumps(known | {"acquittal": acquittal, "evidence": stakes}),)


def read_watch(content: str) -> Watch:
    """What `watch_row` wrote; ValueError, KeyError or TypeError if it is something else."""
    found: dict[str, Any] = json.loads(content)
    stakes, acquittal = found.pop("evidence"), found.pop("acquittal")
    return Watch(
        Evidence(np.asarray(stakes["logs"], np.float64), np.asarray(stakes["since"], np.int64)),
        **found,
        acquittal=None if acquittal is None else Acquittal(**acquittal),
    )

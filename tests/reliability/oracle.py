"""What the agent must have counted: the same records, folded here in one go, without any of its machinery.

Only what scores a text and what makes panes of scores is the agent's own code; reading, cutting into batches,
closing, saving, restoring and moving between replicas is what it is to be held against.
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.assembly import _state, memory_of, open_checkpoints
from agent.bundle import load_reference
from agent.config import EncodingConfig
from agent.inference import open_inference
from agent.items import Items
from agent.loop import Clocks
from agent.panes import Pane
from agent.sample import thinned
from agent.scorer import Scored, Scorer
from agent.slices import UNTAGGED
from agent.summary import Summary
from detectors.calibration import OOD_P_VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agent.config import RunConfig, WindowsConfig
    from agent.records import Record
    from agent.reference import Reference
    from agent.state import State
    from tests.reliability.small_model import Small

Key = tuple[str, int]
AT_ONCE = 1000
# Means are sums in units of 2^-32 of what is compared with floating point here.
NEAR = 1e-8


@dataclass(frozen=True)
class Oracle:
    """Recomputes what a reference says of records."""

    small: Small

    @cached_property
    def reference(self) -> Reference:
        """The bundle, loaded as the agent does."""
        return load_reference(self.small.reference)

    @cached_property
    def scorer(self) -> Scorer:
        """Scores texts against it."""
        inference = open_inference(self.reference, self.small.reference, None, EncodingConfig())
        return Scorer(self.reference, inference)

    def scored(self, records: Sequence[Record]) -> Scored:
        """The records' scores, in order."""
        parts = [records[start : start + AT_ONCE] for start in range(0, len(records), AT_ONCE)]
        return Scored.joined([self.scorer.score(Items.of_records(part)) for part in parts])

    def panes(self, records: Sequence[Record], windows: WindowsConfig, *, sealed: bool = True) -> dict[Key, Pane]:
        """Every pane that these records make if none is late and no pane is forgotten.

        Where panes that are over have been `sealed`, without the sampled items that no window can show any more.
        """
        if not records:
            return {}
        names = [record.slice or UNTAGGED for record in records]
        made = Summary(self.reference, int(windows.pane)).panes(records, names, self.scored(records))
        panes = {(pane.slice, pane.start): pane for pane in made}
        return thinned_until(panes, sealed_until(records, windows)) if sealed else panes

    def ratios(self, records: Sequence[Record]) -> dict[str, Any]:
        """What a window of just these records says, straight from the scores."""
        scored = self.scored(records)
        return {
            "items": len(records),
            "ood_ratio": {name: float(np.mean(values <= OOD_P_VALUE)) for name, values in scored.p.items()},
            "depth_mean": float(np.mean(scored.scores["depth"])),
            "q": float(np.mean(scored.ranks)),
            "confidence_mean": float(np.mean(scored.confidence)),
        }

    def kept(self, config: RunConfig) -> State:
        """What the state store of this configuration holds, as the next agent would find it."""
        state: State = _state(config, self.reference, "", memory_of(config))
        with closing(open_checkpoints(config, self.reference, Clocks())) as store:
            store.restore(state)
            assert not sum(store.quarantined.values()), f"the state was put aside: {store.quarantined}"
        return state


def sealed_until(records: Iterable[Record], windows: WindowsConfig) -> float:
    """Start of the oldest pane that still takes records after these."""
    lateness = windows.pane if windows.lateness is None else windows.lateness
    return (max(record.time for record in records) - lateness) // windows.pane * windows.pane


def thinned_until(panes: Mapping[Key, Pane], until: float) -> dict[Key, Pane]:
    """The same panes; those before `until` without the sampled items that no window can show any more."""
    kept = dict(panes)
    for name in {name for name, _ in panes}:
        keys = sorted((key for key in panes if key[0] == name and key[1] < until), reverse=True)
        for key, sample in zip(keys, thinned(panes[key].sample for key in keys), strict=True):
            kept[key] = Pane(*key, panes[key].tally, sample)
    return kept


def union(states: Iterable[Mapping[Key, Pane]]) -> dict[Key, Pane]:
    """The panes of several replicas together."""
    together: dict[Key, Pane] = {}
    for panes in states:
        for key, pane in panes.items():
            together[key] = together[key].merge(pane) if key in together else pane
    return together


def differences(found: Mapping[Key, Pane], expected: Mapping[Key, Pane]) -> list[str]:
    """What is not as expected, a line each; every field of every pane is compared exactly."""
    wrong = [f"pane {key} is missing: {expected[key].tally.items} items" for key in expected.keys() - found.keys()]
    wrong += [f"pane {key} should not be there" for key in found.keys() - expected.keys()]
    for key in sorted(found.keys() & expected.keys()):
        for part in ("tally", "sample"):
            ours, theirs = getattr(found[key], part), getattr(expected[key], part)
            names = (item.name for item in fields(ours))
            wrong += [
                f"pane {key}: {part}.{name}: {_shown(getattr(ours, name))}, not {_shown(getattr(theirs, name))}"
                for name in names
                if not np.array_equal(getattr(ours, name), getattr(theirs, name))
            ]
    return wrong


def _shown(value: object) -> str:
    return f"array of {value.shape}" if isinstance(value, np.ndarray) else str(value)


def items(panes: Mapping[Key, Pane]) -> int:
    """How many records are counted in these panes."""
    return sum(pane.tally.items for pane in panes.values())


def same_ratios(told: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether a reported window says what the scores say."""
    numbers = {name: told[name] for name in ("depth_mean", "q", "confidence_mean")} | dict(told["ood_ratio"])
    right = {name: expected[name] for name in ("depth_mean", "q", "confidence_mean")} | dict(expected["ood_ratio"])
    return (
        told["items"] == expected["items"]
        and numbers.keys() == right.keys()
        and all(math.isclose(numbers[name], right[name], abs_tol=NEAR) for name in right)
    )

"""Windows: panes of recent event time, sealed when they are over, merged into a short and a long window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.report import WindowReport
from agent.sample import EVERY_HASH, thinned
from agent.window_contents import EndedWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np

    from agent.config import WindowsConfig
    from agent.panes import Pane

Key = tuple[str, int]


@dataclass(frozen=True)
class WindowsSnapshot:
    """The panes of one moment, the newest time seen by then, and until when panes were sealed."""

    panes: Mapping[Key, Pane]
    newest: float
    sealed: int


class Windows:
    """The panes of every slice. Time is event time: it moves only with the records.

    A pane is sealed once a record is seen that is `lateness` past its end; records for a sealed pane are late.
    """

    def __init__(self, config: WindowsConfig, labels: Sequence[str], detectors: Sequence[str]) -> None:
        self._length = int(config.pane)
        self._lengths = {"short": int(config.short), "long": int(config.long)}
        self._lateness = config.pane if config.lateness is None else config.lateness
        self._least = config.min_items
        self._labels = tuple(labels)
        self._detectors = tuple(detectors)
        self._panes: dict[Key, Pane] = {}
        self._newest = float("-inf")
        self._sealed = 0
        self._changed: set[Key] = set()
        self._ended: dict[tuple[str, str], EndedWindow] = {}
        self._over_now: list[Pane] = []

    @property
    def sealed_until(self) -> int:
        """Start of the oldest pane that still takes records (epoch seconds)."""
        return self._sealed

    @property
    def due(self) -> bool:
        """Whether there are panes to seal."""
        return self._over() > self._sealed

    def ceiling(self, key: Key) -> np.uint64:
        """The highest hash that an item of this pane may have to be among those it keeps."""
        pane = self._panes.get(key)
        return EVERY_HASH if pane is None else pane.sample.ceiling

    @property
    def panes(self) -> Mapping[Key, Pane]:
        """Every pane kept, by (slice, start)."""
        return self._panes

    def admit(self, time: float) -> bool:
        """Whether the pane of this moment still takes records; if so, time has moved on to it.

        Asked record by record, so that how records are cut into batches changes nothing.
        """
        if time < max(self._sealed, self._over()):
            return False
        self._newest = max(self._newest, time)
        return True

    def add(self, panes: Iterable[Pane]) -> None:
        """Merge the panes of admitted records in."""
        for pane in panes:
            key = (pane.slice, pane.start)
            present = self._panes.get(key)
            self._panes[key] = pane if present is None else present.merge(pane)
            self._changed.add(key)

    def restore(self, panes: Iterable[Pane], sealed_until: int) -> None:
        """Take up the panes and the seal of an earlier run."""
        self._panes = {(pane.slice, pane.start): pane for pane in panes}
        self._sealed = sealed_until

    def expect(self, least: int) -> None:
        """Give ratios for windows of at least so many items, from the next one on."""
        self._least = least

    def snapshot(self) -> WindowsSnapshot:
        """Everything that `roll_back` needs; cheap, because panes are immutable."""
        return WindowsSnapshot(dict(self._panes), self._newest, self._sealed)

    def roll_back(self, snapshot: WindowsSnapshot) -> None:
        """Be again as then; what differs counts as changed."""
        keys = self._panes.keys() | snapshot.panes.keys()
        self._changed |= {key for key in keys if self._panes.get(key) is not snapshot.panes.get(key)}
        self._panes = dict(snapshot.panes)
        self._newest, self._sealed = snapshot.newest, snapshot.sealed
        self._ended.clear()
        self._over_now.clear()

    def take_changed(self) -> list[Key]:
        """The panes merged into since the last call; those no longer kept are gone from `panes`."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def take_ended(self) -> tuple[EndedWindow, ...]:
        """What windows reported since the last call are made of, in order: the newest of each slice and name."""
        ended = tuple(self._ended.values())
        self._ended.clear()
        return ended

    def take_sealed(self) -> list[Pane]:
        """The panes sealed since the last call, in the order of time."""
        panes, self._over_now = self._over_now, []
        return panes

    def newest_long(self, name: str, since: float = 0.0) -> EndedWindow | None:
        """The long window that ends with this slice's newest sealed pane, of it what begins at or after `since`.

        None if the slice has no such pane.
        """
        ends = [
            start + self._length for kept, start in self._panes if kept == name and since <= start < self._sealed
        ]
        return self._ended_at(name, "long", max(ends)).since(since) if ends else None

    def close(self) -> list[WindowReport]:
        """Seal the panes that are over, and report the windows that end with them."""
        over = self._over()
        if over <= self._sealed:
            return []
        ended = self._ending(self._sealed, over)
        between = sorted((start, name) for name, start in self._panes if self._sealed <= start < over)
        self._over_now += [self._panes[name, start] for start, name in between]
        self._sealed = over
        self._expire()
        self._thin({report.slice for report in ended})
        return ended

    def finish(self) -> list[WindowReport]:
        """The windows that end with the panes still open. Nothing is sealed: the stream may yet go on."""
        return self._ending(self._sealed, float("inf"))

    def _ending(self, since: int, until: float) -> list[WindowReport]:
        """The windows of the panes with since <= start < until, oldest first."""
        panes = sorted((start, name) for name, start in self._panes if since <= start < until)
        return [report for start, name in panes for report in self._reports(name, start + self._length)]

    def _over(self) -> int:
        """The end of the newest pane that takes no more records, by the records seen."""
        if self._newest == float("-inf"):
            return 0
        return int((self._newest - self._lateness) // self._length) * self._length

    def newest(self) -> list[WindowReport]:
        """The windows that end with each slice's newest sealed pane: what was last said of it."""
        ends = {name: start + self._length for name, start in sorted(self._panes) if start < self._sealed}
        return [report for name, end in ends.items() for report in self._reports(name, end)]

    def _reports(self, name: str, end: int) -> Iterator[WindowReport]:
        """The short and the long window of a slice that end there; what they are made of can then be taken."""
        for window in self._lengths:
            ended = self._ended_at(name, window, end)
            self._ended.pop(ended.key, None)  # so that they are in the order in which they ended
            self._ended[ended.key] = ended
            yield self._report(ended)

    def _ended_at(self, name: str, window: str, end: int) -> EndedWindow:
        start = end - self._lengths[window]
        inside = tuple(
            pane for (kept, begun), pane in self._panes.items() if kept == name and start <= begun < end
        )
        return EndedWindow(name, window, start, end, inside)

    def _report(self, ended: EndedWindow) -> WindowReport:
        tally = ended.tally
        enough = tally.items >= self._least
        unknown = float("nan")
        return WindowReport(
            slice=ended.slice,
            window=ended.window,
            start=ended.start,
            end=ended.end,
            items=tally.items,
            enough=enough,
            ood_ratio=tally.ood_ratios(self._detectors) if enough else {},
            depth_mean=tally.mean(tally.depth_sum) if enough else unknown,
            q=tally.mean(tally.rank_sum) if enough else unknown,
            confidence_mean=tally.mean(tally.confidence_sum) if enough else unknown,
            classes=dict(zip(self._labels, tally.classes.tolist(), strict=True)),
            depth_counts=tuple(tally.depth_counts.tolist()) if enough else (),
        )

    def _thin(self, slices: Iterable[str]) -> None:
        """Let go of sampled items that no window can show any more. Panes that still take records are left out."""
        for name in slices:
            keys = sorted((key for key in self._panes if key[0] == name and key[1] < self._sealed), reverse=True)
            for key, sample in zip(keys, thinned(self._panes[key].sample for key in keys), strict=True):
                if sample is not self._panes[key].sample:
                    self._panes[key] = replace(self._panes[key], sample=sample)
                    self._changed.add(key)

    def _expire(self) -> None:
        """Forget panes that no window can reach any more."""
        oldest = self._sealed - self._lengths["long"]
        for key in [key for key in self._panes if key[1] < oldest]:
            del self._panes[key]
            self._changed.add(key)

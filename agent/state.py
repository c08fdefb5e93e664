"""The state of a running agent: windows and positions, which survive a restart, and the ledger, which does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.alert_report import Asked
from agent.reasons import Reason
from agent.report import Estimation, Report, SourceShape, SourceStatus, Upkeep, WindowReport
from agent.scorer import Scored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from agent.alert_report import Alerts, Episode
    from agent.batch import Batch
    from agent.decision import Decision
    from agent.ledger import Ledger
    from agent.memory import Memory
    from agent.messages import DeadLetter
    from agent.pairing import Half
    from agent.records import Label, Record
    from agent.report import ModelInfo, WindowEstimate
    from agent.summary import Summary
    from agent.watch import Decided
    from agent.window_contents import EndedWindow
    from agent.windows import Windows, WindowsSnapshot

# Records that are folded into panes together, and how long (seconds) a snapshot may be without the newest ones.
FOLDED = 4096
FRESH = 0.5


@dataclass(frozen=True)
class Identity:
    """What does not change while the agent runs: its version and what it measures against."""

    version: str
    info: ModelInfo
    shape: SourceShape = field(default_factory=SourceShape)


@dataclass(frozen=True)
class Beside:
    """What others have to say in a Report: those who estimate, read, and keep the state."""

    estimation: Estimation = field(default_factory=Estimation)
    source: SourceStatus = field(default_factory=SourceStatus)
    upkeep: Upkeep = field(default_factory=Upkeep)
    asked: Asked = field(default_factory=Asked)


@dataclass(frozen=True)
class _Snapshot:
    """What the source has taken note of, as it was then."""

    windows: WindowsSnapshot
    positions: Mapping[str, int]
    halves: tuple[Half, ...]
    seen: tuple[int, ...]
    reports: Mapping[tuple[str, str], WindowReport]
    decided: Decided


class State:
    """Folds scored batches into panes, closes windows, and renders itself as a frozen Report."""

    def __init__(  # noqa: PLR0913, PLR0917 - its parts
        self,
        summary: Summary,
        windows: Windows,
        memory: Memory,
        ledger: Ledger,
        identity: Identity,
        decision: Decision,
    ) -> None:
        self._summary = summary
        self._windows = windows
        self.decision = decision
        self._admitted: list[Record] = []
        self._scored: list[Scored] = []
        self._told = float("-inf")
        self.slices = memory.slices
        self._ledger = ledger
        self._identity = identity
        self._reports: dict[tuple[str, str], WindowReport] = {}
        self.positions: dict[str, int] = {}
        self.pairing = memory.pairing
        self.seen = memory.seen
        self.texts = memory.texts
        self._labels: list[Label] = []
        self._confirmed = self._snapshot()

    def receive(self, batch: Batch) -> None:
        """Note that a batch was read; its records are in flight until `add`, its letters until `delivered`."""
        self._ledger.receive(batch)
        self._labels.extend(batch.labels)

    def delivered(self, letters: Iterable[DeadLetter]) -> None:
        """Note that these letters are kept for good."""
        self._ledger.delivered(letters)

    def take_labels(self) -> list[Label]:
        """The labels that came on their own since the last call."""
        labels, self._labels = self._labels, []
        return labels

    def confirm(self) -> None:
        """The source has taken note of this state's positions: `roll_back` comes back to here."""
        self._confirmed = self._snapshot()

    def roll_back(self, now: float) -> None:
        """Undo what was counted since the source last took note: somebody else reads those records."""
        kept = self._confirmed
        # Not `_windows`: what was scored is folded first, and so is processed, whoever keeps it in the end.
        self.windows.roll_back(kept.windows)
        self.positions = dict(kept.positions)
        self.pairing.restore(kept.halves)
        self.seen.restore(kept.seen)
        self._reports = dict(kept.reports)
        self.decision.roll_back(kept.decided, now)
        self.texts.prune(self._windows.panes.values())
        self._labels = []
        self._ledger.resume(len(self.pairing))

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(
            self.windows.snapshot(),
            dict(self.positions),
            self.pairing.snapshot(),
            self.seen.snapshot(),
            dict(self._reports),
            self.decision.decided,
        )

    def add(self, records: Sequence[Record], scored: Scored) -> None:
        """Take scored records of the batch in flight in. Late ones are only counted.

        The panes get them a little later, many together, which costs less; whoever looks at `windows` finds them
        there.
        """
        lost = [self._loss(record, finite) for record, finite in zip(records, scored.finite, strict=True)]
        kept = [row for row, reason in enumerate(lost) if reason is None]
        self._ledger.scored(scored, Counter(reason for reason in lost if reason))
        if kept:
            self._admitted.extend(records if len(kept) == len(lost) else [records[row] for row in kept])
            self._scored.append(scored if len(kept) == len(lost) else scored.take(kept))
        if len(self._admitted) >= FOLDED:
            self._fold()

    def pass_to(self, positions: Mapping[str, int]) -> None:
        """The batch in flight was taken in: read on from here."""
        self.positions.update(positions)

    def _fold(self) -> None:
        """Give the panes the records that were admitted since the last time."""
        if not self._admitted:
            return
        slices = [self.slices.name(record.slice) for record in self._admitted]
        panes = self._summary.panes(self._admitted, slices, Scored.joined(self._scored), self._windows.ceiling)
        self._windows.add(panes)
        self._ledger.folded(panes)
        self.texts.keep(self._admitted, slices, panes)
        self._admitted, self._scored = [], []

    @property
    def windows(self) -> Windows:
        """The windows, with every record in them that was added."""
        self._fold()
        return self._windows

    def asked_about(self, episode: Episode) -> EndedWindow | None:
        """What the newest long window of an episode's slice holds of the time since the change; None without."""
        return self._windows.newest_long(episode.slice, episode.since)

    def take_ended(self) -> tuple[EndedWindow, ...]:
        """What the windows closed since the last call are made of."""
        return self._windows.take_ended()

    def _loss(self, record: Record, finite: np.bool_) -> Reason | None:
        """Why this scored record is in no pane, if it is in none."""
        if not finite:
            return Reason.SCORING_FAILED
        return None if self._windows.admit(record.time) else Reason.LATE

    def resume(self) -> None:
        """Take up what was just restored: say again what was last said, so that a restart leaves no gap."""
        self._ledger.resume(len(self.pairing))
        self._reports = {(report.slice, report.window): report for report in self.windows.newest()}
        self.confirm()

    def close_windows(self, now: float, *, finished: bool = False) -> list[WindowReport]:
        """Windows of the panes that are over, oldest first; if the stream has finished, also of the open ones.

        What their panes say is decided on as well, at the moment `now` (epoch seconds).
        """
        closed = self.windows.close() if self._windows.due else []
        if sealed := self._windows.take_sealed():
            self.decision.sealed(sealed, now)
            self.decision.passed(self._windows.sealed_until, now)
            self.texts.prune(self._windows.panes.values())
        if finished:
            closed += self.windows.finish()
        self._reports.update({(report.slice, report.window): report for report in closed})
        return closed

    def report(self, now: float, *, ready: bool, beside: Beside | None = None) -> Report:
        """Everything there is to say at this moment. A slice without recent panes is not in it."""
        beside = beside or Beside()
        ledger = self._ledger
        if self._admitted and abs(now - self._told) >= FRESH:
            self._fold()
            self._told = now
        windows = [self._reports[key] for key in sorted(self._reports) if self._recent(self._reports[key])]
        return Report(
            time=now,
            version=self._identity.version,
            info=self._identity.info,
            counts=ledger.counts,
            heartbeat=now,
            ready=ready,
            windows=tuple(windows),
            item_p_values=ledger.item_p_values,
            encode_seconds=ledger.encode_seconds,
            score_seconds=ledger.score_seconds,
            batch_records=ledger.batch_records,
            estimation=self._current(beside.estimation, windows),
            source=beside.source,
            upkeep=beside.upkeep,
            shape=self._identity.shape,
            alerts=self._alerts(beside.asked),
        )

    def _alerts(self, asked: Asked) -> Alerts:
        return replace(
            self.decision.alerts(),
            batches=asked.batches,
            realised=asked.realised,
            batch_failures=asked.failures,
            texts_lost=self.texts.failures,
        )

    def _recent(self, report: WindowReport) -> bool:
        """Whether the window still overlaps the windows that end now."""
        return report.end > self._windows.sealed_until - (report.end - report.start)

    def _current(self, estimation: Estimation, windows: Iterable[WindowReport]) -> Estimation:
        """Without what belongs to windows that are not reported, or are by now others than those estimated."""
        reported = {(window.slice, window.window): window.end - window.start for window in windows}
        slices = {name for name, _ in reported}

        def current(estimate: WindowEstimate) -> bool:
            # Still shown at the very moment its window is over: the next estimate comes a little after the window.
            length = reported.get((estimate.slice, estimate.window))
            return length is not None and estimate.end >= self._windows.sealed_until - length

        since = {name: time for name, time in estimation.last_success.items() if name in slices}
        return replace(
            estimation,
            estimates=tuple(filter(current, estimation.estimates)),
            last_success=MappingProxyType(since),
        )

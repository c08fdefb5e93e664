"""The state of a running agent: windows and positions, which survive a restart, and the ledger, which does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.records import Reason
from agent.report import Estimation, Report, WindowReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from agent.ledger import Ledger
    from agent.records import Batch, Record
    from agent.report import ModelInfo, WindowEstimate
    from agent.scorer import Scored
    from agent.slices import Slices
    from agent.summary import Summary
    from agent.windows import Windows


@dataclass(frozen=True)
class Identity:
    """What does not change while the agent runs: its version and what it measures against."""

    version: str
    info: ModelInfo


class State:
    """Folds scored batches into panes, closes windows, and renders itself as a frozen Report."""

    def __init__(
        self, summary: Summary, windows: Windows, slices: Slices, ledger: Ledger, identity: Identity
    ) -> None:
        self._summary = summary
        self.windows = windows
        self.slices = slices
        self._ledger = ledger
        self._identity = identity
        self._reports: dict[tuple[str, str], WindowReport] = {}
        self.positions: dict[str, int] = {}
        self.last_checkpoint = float("nan")

    def receive(self, batch: Batch) -> None:
        """Note that a batch was read; its records are in flight until `add`."""
        self._ledger.receive(batch)

    def add(self, batch: Batch, scored: Scored | None) -> None:
        """Fold a scored batch into its panes and move the positions past it. Late records are only counted.

        `scored` is None for a batch without records.
        """
        if scored is not None:
            self._fold(batch, scored)
        self.positions.update(batch.positions)

    def _fold(self, batch: Batch, scored: Scored) -> None:
        lost = [self._loss(record, finite) for record, finite in zip(batch.records, scored.finite, strict=True)]
        kept = [row for row, reason in enumerate(lost) if reason is None]
        records = [batch.records[row] for row in kept]
        counted = scored if len(kept) == len(lost) else scored.take(kept)
        panes = self._summary.panes(records, [self.slices.name(record.slice) for record in records], counted)
        self.windows.add(panes)
        self._ledger.settle(counted, panes, Counter(reason for reason in lost if reason))

    def _loss(self, record: Record, finite: np.bool_) -> Reason | None:
        """Why this scored record is in no pane, if it is in none."""
        if not finite:
            return Reason.LOGITS_NOT_FINITE
        return None if self.windows.admit(record.time) else Reason.LATE

    def resume(self) -> None:
        """Say again what was last said of the panes just restored, so that a restart leaves no gap."""
        self._reports = {(report.slice, report.window): report for report in self.windows.newest()}

    def close_windows(self, *, finished: bool = False) -> list[WindowReport]:
        """Windows of the panes that are over, oldest first; if the stream has finished, also of the open ones."""
        closed = self.windows.close()
        if finished:
            closed += self.windows.finish()
        self._reports.update({(report.slice, report.window): report for report in closed})
        return closed

    def report(self, now: float, *, ready: bool, estimation: Estimation | None = None) -> Report:
        """Everything there is to say at this moment. A slice without recent panes is not in it."""
        ledger = self._ledger
        windows = [self._reports[key] for key in sorted(self._reports) if self._recent(self._reports[key])]
        return Report(
            time=now,
            version=self._identity.version,
            info=self._identity.info,
            counts=ledger.counts,
            heartbeat=now,
            ready=ready,
            last_checkpoint=self.last_checkpoint,
            windows=tuple(windows),
            item_p_values=ledger.item_p_values,
            encode_seconds=ledger.encode_seconds,
            score_seconds=ledger.score_seconds,
            batch_records=ledger.batch_records,
            estimation=self._current(estimation or Estimation(), windows),
        )

    def _recent(self, report: WindowReport) -> bool:
        """Whether the window still overlaps the windows that end now."""
        return report.end > self.windows.sealed_until - (report.end - report.start)

    def _current(self, estimation: Estimation, windows: Iterable[WindowReport]) -> Estimation:
        """Without what belongs to windows that are not reported, or are by now others than those estimated."""
        reported = {(window.slice, window.window): window.end - window.start for window in windows}
        slices = {name for name, _ in reported}

        def current(estimate: WindowEstimate) -> bool:
            # Still shown at the very moment its window is over: the next estimate comes a little after the window.
            length = reported.get((estimate.slice, estimate.window))
            return length is not None and estimate.end >= self.windows.sealed_until - length

        since = {name: time for name, time in estimation.last_success.items() if name in slices}
        return replace(
            estimation,
            estimates=tuple(filter(current, estimation.estimates)),
            last_success=MappingProxyType(since),
        )

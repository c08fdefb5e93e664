"""The annotation batches as the page sees them: what may be downloaded, and what is least like the source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.report import Report

# What an episode's id is made of: nothing that could name another file, or be an option.
EPISODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
MOST = 10


def download_of(episode: str) -> str:
    """Where the page serves the batch of this episode; empty where it is none that an agent gives.

    >>> download_of("5e1f0a"), download_of("../../etc/passwd")
    ('batches/5e1f0a.jsonl', '')
    """
    return f"batches/{episode}.jsonl" if EPISODE.fullmatch(episode) else ""


class Batches(Protocol):
    """The batches on disk. Called from the server's thread, now and then; raises nothing."""

    def lines(self, episode: str, *, texts: bool) -> bytes | None:
        """The items to label, JSON Lines, with their texts only if asked for; None where there is no batch."""

    def dissimilar(self, episode: str) -> Sequence[Mapping[str, object]]:
        """The batch's items that are least like the source, the least first, as its JSON Lines have them.

        Costs nothing: it is asked for whenever the page is rendered.
        """


class NoBatches:
    """Nothing is kept for annotation."""

    def lines(self, episode: str, *, texts: bool) -> bytes | None:
        """None, for any episode."""
        del episode, texts
        return None

    def dissimilar(self, episode: str) -> Sequence[Mapping[str, object]]:
        """Nothing, for any episode."""
        del episode
        return ()


@dataclass
class Shown:
    """What may be shown beside the Report: the batches, and whether their texts too."""

    batches: Batches = field(default_factory=NoBatches)
    texts: bool = False

    def download(self, report: Report, episode: str) -> bytes | None:
        """The items of a batch that the Report names; None for anything else.

        >>> from types import SimpleNamespace
        >>> from agent.alert_report import Alerts
        >>> Shown().download(SimpleNamespace(alerts=Alerts()), "../../etc/passwd")
        """
        known = any(each.episode == episode for each in report.alerts.batches)
        return self.batches.lines(episode, texts=self.texts) if known and EPISODE.fullmatch(episode) else None

    def dissimilar(self, report: Report) -> Sequence[Mapping[str, object]]:
        """Of the newest batch of an open episode, or else of the newest, the few items least like the source."""
        asked = {each.id for each in report.alerts.open}
        known = [
            (each.episode in asked, each.written if isfinite(each.written) else 0.0, each.episode)
            for each in report.alerts.batches
            if EPISODE.fullmatch(each.episode)
        ]
        if not known:
            return ()
        *_, episode = max(known)
        return self.batches.dissimilar(episode)[:MOST]

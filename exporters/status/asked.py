"""What was asked of people and what came back, ready to print: batches, episodes, items unlike the source."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING
from urllib.parse import quote

from exporters.status.batches import download_of
from exporters.status.facts import plain
from exporters.status.format import NOTHING, count, moment, number, points, since, span
from exporters.status.words import returned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.alert_report import Alerts, BatchFacts, Episode, Realised

MOST_EPISODES, MOST_BATCHES, MOST_CHARACTERS = 10, 5, 400
# How the labels of a batch are brought back.
IMPORT = "leadline annotate import run.yaml labels.csv --episode {episode}"
KINDS = {"drop": "accuracy probably lost", "unknown": "nobody can tell"}
OUTCOMES = {
    "open": "open",
    "recovered": "the estimate recovered",
    "returned": "the traffic is as it was",
    "silent": "no more traffic",
    "harmless": "labels said: no more lost than you accept",
    "moved": "another replica reads it now",
    "superseded": "another reference or source since",
}


@dataclass(frozen=True)
class BatchRow:
    """An annotation batch; `texts` says what became of its texts.

    `key` names it in the page. `download` is empty where its id is none that the agent gives.
    """

    key: str
    download: str
    command: str
    slice: str
    items: str
    written: str
    labels: str
    texts: str


def batches(alerts: Alerts, now: float, *, texts: bool) -> list[BatchRow]:
    """The newest first."""
    realised = {each.episode: each for each in alerts.realised}
    newest = sorted(alerts.batches, key=lambda each: -each.written if isfinite(each.written) else 0.0)
    return [_batch(each, realised.get(each.episode), now, texts=texts) for each in newest[:MOST_BATCHES]]


def _batch(batch: BatchFacts, realised: Realised | None, now: float, *, texts: bool) -> BatchRow:
    kept = "Its texts are in the download." if texts else "Its texts are kept out of this page and its downloads."
    return BatchRow(
        key=quote(plain(batch.episode), safe=""),
        download=download_of(batch.episode),
        command=IMPORT.format(episode=shlex.quote(plain(batch.episode))),
        slice=plain(batch.slice),
        items=count(batch.items, "item"),
        written=since(batch.written, now),
        labels=returned(realised) if realised is not None else "No label has come back yet.",
        texts=kept if batch.texts else "No texts are kept: look the items up by their id.",
    )


@dataclass(frozen=True)
class Item:
    """An item that is hardly like the source; `text` is empty where texts are not shown."""

    id: str
    slice: str
    prediction: str
    depth: str
    text: str


def dissimilar(items: Iterable[Mapping[str, object]], *, texts: bool) -> list[Item]:
    """Items of a batch, whatever is in them; their texts only if they may be shown."""
    return [_item(each, texts=texts) for each in items]


def _item(item: Mapping[str, object], *, texts: bool) -> Item:
    depth = item.get("depth")
    told = " / ".join(str(item[name]) for name in ("text", "text_pair") if texts and item.get(name))
    return Item(
        id=plain(str(item.get("id", NOTHING))),
        slice=plain(str(item.get("slice", NOTHING))),
        prediction=plain(str(item.get("prediction", NOTHING))),
        depth=number(depth, 2) if isinstance(depth, float | int) else NOTHING,
        text=_cut(told),
    )


def _cut(text: str) -> str:
    shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    return "\n".join(plain(line) for line in shown.splitlines())


@dataclass(frozen=True)
class EpisodeRow:
    """An episode in the table of episodes."""

    slice: str
    kind: str
    since: str
    fired: str
    ended: str
    drop: str
    labels: str


def episodes(alerts: Alerts, now: float) -> list[EpisodeRow]:
    """The newest first; open ones before those that are over."""
    realised = {each.episode: each for each in alerts.realised}
    newest = sorted(
        alerts.episodes, key=lambda each: (not each.open, -each.fired if isfinite(each.fired) else 0.0)
    )
    return [_episode(each, realised.get(each.id), now) for each in newest[:MOST_EPISODES]]


def _episode(episode: Episode, realised: Realised | None, now: float) -> EpisodeRow:
    outcome = OUTCOMES.get(episode.outcome, episode.outcome)
    drop = (
        f"{points(episode.drop.estimate)} ({span(episode.drop)})" if isfinite(episode.drop.estimate) else NOTHING
    )
    return EpisodeRow(
        slice=plain(episode.slice),
        kind=KINDS.get(episode.kind, episode.kind),
        since=moment(episode.since, now),
        fired=moment(episode.fired, now),
        ended=outcome if episode.open else f"{moment(episode.resolved, now)}: {outcome}",
        drop=drop,
        labels=_said(realised),
    )


def _said(realised: Realised | None) -> str:
    if realised is None:
        return "none"
    drop = realised.combined
    said = f": {points(drop.estimate)} ({span(drop)})" if isfinite(drop.estimate) else ""
    return f"{realised.labelled:,} of {realised.asked:,}{said}"

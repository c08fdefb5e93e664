"""What a checkpoint holds of a state: how it is written, and how it comes back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.annotation.texts import KeptText
from agent.pairing import Half
from agent.payloads.contract import Kind
from agent.state_store.decided import episode_row, read_episode, read_watch, watch_row
from agent.state_store.kept import MOST_LABELS
from agent.state_store.pane_blobs import pack, unpack
from agent.state_store.rows import Rows, verified
from agent.watch import Decided

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from agent.alert_report import Episode
    from agent.annotation.texts import Key, Texts
    from agent.pairing import Pairing
    from agent.panes import Pane
    from agent.records import Label
    from agent.state_store.kept import Changes, Kept
    from agent.state_store.rows import Row
    from agent.watch import Watch

# Ids a row of `seen`: rows are filled up before a new one is begun, so there are few even where traffic is thin.
SEEN_ROW = 4096


def write(rows: Rows, state: Kept, changes: Changes) -> None:
    """Write these changes, and what is small as a whole."""
    for name, start in sorted(changes.panes):
        pane = state.windows.panes.get((name, start))
        if pane is None:
            rows.drop("panes", (name, start))
        else:
            rows.put("panes", (name, start), (pack(pane),))
    _write_halves(rows, state.pairing, changes.halves)
    if changes.all_seen:
        rows.replace("seen", {})
    _write_seen(rows, changes.seen, state.seen.remember)
    _write_labels(rows, changes.labels)
    _write_texts(rows, state.texts, changes.texts)
    decided = state.decision.decided
    rows.replace("watches", {(json.dumps(name),): watch_row(each) for name, each in decided.watches.items()})
    rows.replace("episodes", {(place,): episode_row(each) for place, each in enumerate(decided.episodes)})
    rows.replace("positions", {(partition,): (position,) for partition, position in state.positions.items()})
    rows.replace("slices", {(place,): (name,) for place, name in enumerate(state.slices.known)})
    rows.replace("sealed", {(1,): (state.windows.sealed_until,)})
    rows.finish()


def _write_halves(rows: Rows, pairing: Pairing, changed: set[str]) -> None:
    for place in changed - pairing.halves.keys():
        rows.drop("halves", (json.dumps(place),))
    if changed:
        # In the order in which they came, which is the order in which they are given up.
        for place, half in pairing.halves.items():
            if place in changed:
                _write_half(rows, place, half)


def _write_half(rows: Rows, place: str, half: Half) -> None:
    try:
        content = json.dumps([half.kind, half.key, half.fields, half.arrival, half.origin])
    except RecursionError:
        # JSON that could just be read and is too deep to be written, from where the stack is deeper. Traffic must
        # not stop the agent: after a restart this half never came.
        rows.drop("halves", (json.dumps(place),))
        return
    rows.put("halves", (json.dumps(place),), (content,))


def _write_seen(rows: Rows, added: Sequence[int], remember: int) -> None:
    """Append, filling up the newest row; rows go once the newer ones hold as many as are remembered."""
    held = rows.cursor.execute("SELECT number, length(digests) / 8 FROM seen ORDER BY number").fetchall()
    if added:
        number, tail = (
            (held.pop()[0], _newest_seen(rows)) if held and held[-1][1] < SEEN_ROW else (_after(held), b"")
        )
        whole = tail + np.array(added, "<u8").tobytes()
        for start in range(0, len(whole), 8 * SEEN_ROW):
            content = whole[start : start + 8 * SEEN_ROW]
            rows.put("seen", (number,), (content,))
            held.append((number, len(content) // 8))
            number += 1
    total = sum(count for _, count in held)
    for number, count in held:
        total -= count
        if total < remember:
            break
        rows.drop("seen", (number,))


def _newest_seen(rows: Rows) -> bytes:
    (content,) = rows.cursor.execute("SELECT digests FROM seen ORDER BY number DESC LIMIT 1").fetchone()
    return bytes(content)


def _after(held: Sequence[tuple[int, int]]) -> int:
    return held[-1][0] + 1 if held else 0


def _write_labels(rows: Rows, labels: Sequence[Label]) -> None:
    if not labels:
        return
    (number,) = rows.cursor.execute("SELECT coalesce(max(number), 0) FROM labels").fetchone()
    for label in labels:
        number += 1
        # An id may hold half a surrogate pair, which no database takes.
        name = label.id.encode("utf-8", "replace").decode()
        rows.put("labels", (number,), (name, json.dumps(label.label), float(label.time)))
    oldest = rows.cursor.execute("SELECT number FROM labels WHERE number <= ?", (number - MOST_LABELS,)).fetchall()
    for key in oldest:
        rows.drop("labels", key)


def _write_texts(rows: Rows, texts: Texts, changed: set[Key]) -> None:
    for key in changed:
        place = tuple(map(json.dumps, key))
        if key in texts.kept:
            rows.put("texts", place, (json.dumps(asdict(texts.kept[key])),))
        else:
            rows.drop("texts", place)


@dataclass
class Content:
    """Everything of a checkpoint that goes back into a state."""

    panes: list[Pane] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    slices: list[str] = field(default_factory=list)
    sealed_until: int = 0
    halves: list[Half] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    watches: dict[str, Watch] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    texts: list[KeptText] = field(default_factory=list)

    @classmethod
    def read(cls, cursor: sqlite3.Cursor) -> Content:
        """The whole of it, verified; UnusableError, or what `judged` judges."""
        content = cls()
        for table, row in verified(cursor):
            content.take(table, row)
        return content

    def take(self, table: str, row: Row) -> None:
        """Take up one row."""
        values: Any = row
        match table:
            case "panes":
                self.panes.append(unpack(*values))
            case "positions":
                self.positions[values[0]] = values[1]
            case "slices":
                self.slices.append(values[1])
            case "sealed":
                self.sealed_until = values[1]
            case "halves":
                kind, *others = json.loads(values[1])
                self.halves.append(Half(Kind(kind), *others))
            case "seen":
                self.seen.extend(np.frombuffer(values[1], "<u8").tolist())
            case "watches":
                self.watches[json.loads(values[0])] = read_watch(values[1])
            case "episodes":
                self.episodes.append(read_episode(values[1]))
            case "texts":
                self.texts.append(KeptText(**json.loads(values[2])))

    def give(self, state: Kept) -> None:
        """Put it into a fresh state."""
        state.positions.update(self.positions)
        for name in self.slices:
            state.slices.name(name)
        state.windows.restore(self.panes, self.sealed_until)
        state.pairing.restore(self.halves)
        state.pairing.take_changed()  # they are all in the store
        remember = state.seen.remember
        state.seen.restore(self.seen[-remember:] if remember else [])
        state.seen.take_replaced()
        state.decision.restore(Decided(self.watches, tuple(self.episodes)))
        state.texts.restore(self.texts)
        state.resume()

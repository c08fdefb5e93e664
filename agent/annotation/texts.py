"""Texts of sampled items, kept only where the user asked for it: redacted, cut, forgotten in time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from sys import getsizeof
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
import structlog

from agent.annotation.redaction import as_it_is
from agent.annotation.term import Term
from agent.sample import SIZE, id_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agent.alert_config import AnnotationConfig
    from agent.annotation.redaction import Redact
    from agent.panes import Pane
    from agent.records import Record

# All texts together, in bytes of memory.
MOST_BYTES = 64 * 1024 * 1024
# What one text takes beside its strings, in bytes, as measured: its times, its keys, its places in the dict and,
# until the state is saved, among those that changed.
BESIDE = 440
# What a text is found by: slice and id.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class KeptText:
    """What was kept of one item's text, and of its pair where it has one, redacted and cut.

    `start` is that of the pane which samples it; `time` the record's own, `kept` when it was kept by the clock
    (epoch seconds).
    """

    slice: str
    id: str
    start: int
    text: str
    pair: str | None
    time: float
    kept: float

    @property
    def key(self) -> Key:
        """What it is found by."""
        return self.slice, self.id

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, with everything that is kept to find it; rather more than less."""
        strings = (self.slice, self.id, self.text, self.pair)
        return BESIDE + sum(getsizeof(each) for each in strings if each is not None)


class Texts(Protocol):
    """The texts of sampled items. Nothing here raises."""

    @property
    def kept(self) -> Mapping[Key, KeptText]:
        """Every text kept."""

    @property
    def failures(self) -> int:
        """Texts lost since the start because the redaction raised or gave no text."""

    def keep(self, records: Sequence[Record], slices: Sequence[str], panes: Iterable[Pane]) -> None:
        """Keep the texts of those records that the panes just made of them sample; `slices` are their panes'."""

    def prune(self, panes: Iterable[Pane]) -> None:
        """Forget the texts that none of these panes, all there are, samples any more."""

    def expire(self, now: float) -> None:
        """Forget the texts that are too old at this moment (epoch seconds)."""

    def get(self, name: str, ids: Iterable[str]) -> dict[str, KeptText]:
        """What is kept of these items of a slice, by id."""

    def take_changed(self) -> set[Key]:
        """What was kept or forgotten since the last call; what is gone is not in `kept`."""

    def restore(self, kept: Iterable[KeptText]) -> None:
        """Take up the texts of an earlier run, by today's configuration."""


class KeptTexts:
    """Keeps texts of sampled items only, so that the samples bound how many there are; of very many the newest.

    Used from one thread. The first text that comes under an id stays: a second delivery does not make it younger.
    """

    def __init__(
        self,
        config: AnnotationConfig,
        redact: Redact = as_it_is,
        clock: Callable[[], float] = time.time,
        size: int = SIZE,
    ) -> None:
        """`size` is how many items one pane samples."""
        self._most, self._keep, self._size = config.most_characters, config.keep, size
        self._redact = redact
        self._clock = clock
        self._kept: dict[Key, KeptText] = {}
        self._in_pane: Counter[tuple[str, int]] = Counter()
        self._bytes = 0
        self._changed: set[Key] = set()
        self._newest = float("-inf")
        self._failures = 0

    @property
    def kept(self) -> Mapping[Key, KeptText]:
        """Every text kept."""
        return MappingProxyType(self._kept)

    @property
    def failures(self) -> int:
        """Texts lost since the start because the redaction raised or gave no text."""
        return self._failures

    def keep(self, records: Sequence[Record], slices: Sequence[str], panes: Iterable[Pane]) -> None:
        """Keep the texts of those records that the panes just made of them sample."""
        sampled = {(pane.slice, name): pane.start for pane in panes for name in pane.sample.ids.tolist()}
        now = self._clock()
        for record, name in zip(records, slices, strict=True):
            key = (name, _as_sampled(record.id))
            start = sampled.get(key)
            if start is None or key in self._kept:
                continue
            self._newest = max(self._newest, record.time)
            text = self._allowed(KeptText(*key, start, record.text, record.pair, record.time, now))
            if text is not None:
                self._put(text)
        self._bound_panes()
        self._bound_bytes()

    def prune(self, panes: Iterable[Pane]) -> None:
        """Forget the texts that none of these panes samples any more."""
        sampled: dict[str, set[str]] = {}
        for pane in panes:
            sampled.setdefault(pane.slice, set()).update(pane.sample.ids.tolist())
        self._forget([key for key in self._kept if key[1] not in sampled.get(key[0], ())])

    def expire(self, now: float) -> None:
        """Forget what was kept `keep` ago, and what is `keep` older than the newest record.

        By the records' own time too, so that a text which is read anew does not live on; and not against the
        clock, or the texts of a replayed file would be gone at once.
        """
        term, earliest = Term(now, self._keep), self._newest - self._keep
        old = [key for key, text in self._kept.items() if term.is_over(text.kept) or text.time <= earliest]
        self._forget(old)

    def get(self, name: str, ids: Iterable[str]) -> dict[str, KeptText]:
        """What is kept of these items of a slice, by id."""
        return {each: self._kept[name, each] for each in ids if (name, each) in self._kept}

    def take_changed(self) -> set[Key]:
        """What was kept or forgotten since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def restore(self, kept: Iterable[KeptText]) -> None:
        """Take up the texts of an earlier run, redacted and cut as the configuration now says."""
        self._kept, self._changed = {}, set()
        self._in_pane.clear()
        self._bytes = 0
        for text in sorted(kept, key=lambda text: text.kept):
            self._newest = max(self._newest, text.time)
            allowed = self._allowed(text)
            if allowed is not None:
                self._put(allowed)
            if allowed == text:
                self._changed.discard(text.key)
            else:
                self._changed.add(text.key)
        self._bound_bytes()

    def _allowed(self, text: KeptText) -> KeptText | None:
        """What may be kept of it, if anything. Redacted whole: a cut could halve what gives a secret away."""
        try:
            kept = self._redact(text.text)
            pair = None if text.pair is None else self._redact(text.pair)
            if kept is None:
                return None
            return replace(text, text=self._cut(kept), pair=None if pair is None else self._cut(pair))
        except Exception as error:  # noqa: BLE001 - the user's function may break in any way, on any text
            if not self._failures:  # what it says may quote the text: only its kind is told, and once
                structlog.get_logger().warning("redaction_failed", error=type(error).__name__)
            self._failures += 1
            return None

    def _cut(self, text: str) -> str:
        """At most so many characters, such that any file takes them. TypeError for what is no text."""
        if not isinstance(text, str):
            raise TypeError("a redaction must give text")
        return text[: self._most].encode("utf-8", "replace").decode()

    def _put(self, text: KeptText) -> None:
        self._kept[text.key] = text
        self._changed.add(text.key)
        self._in_pane[text.slice, text.start] += 1
        self._bytes += text.size

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            text = self._kept.pop(key)
            self._changed.add(key)
            self._bytes -= text.size
            self._in_pane[text.slice, text.start] -= 1
            if not self._in_pane[text.slice, text.start]:
                del self._in_pane[text.slice, text.start]

    def _bound_bytes(self) -> None:
        """The oldest go first: they came first."""
        over, gone = self._bytes - MOST_BYTES, []
        for key, text in self._kept.items():
            if over <= 0:
                break
            over -= text.size
            gone.append(key)
        self._forget(gone)

    def _bound_panes(self) -> None:
        """Of a pane that takes records for long, only what it can still sample: the lowest hashes.

        Done when there are twice as many, so that it costs little a record.
        """
        for pane in [pane for pane, count in self._in_pane.items() if count > 2 * self._size]:
            keys = [key for key, text in self._kept.items() if (text.slice, text.start) == pane]
            order = np.argsort(id_hashes([name for _, name in keys]), kind="stable")
            self._forget(keys[place] for place in order[self._size :].tolist())


class NoTexts:
    """Keeps no text: what the user did not ask for. What an earlier run kept is forgotten."""

    kept: Mapping[Key, KeptText] = MappingProxyType({})
    failures = 0

    def __init__(self) -> None:
        self._gone: set[Key] = set()

    def keep(self, records: Sequence[Record], slices: Sequence[str], panes: Iterable[Pane]) -> None:
        """Nothing."""

    def prune(self, panes: Iterable[Pane]) -> None:
        """Nothing is kept."""

    def expire(self, now: float) -> None:
        """Nothing is kept."""

    def get(self, name: str, ids: Iterable[str]) -> dict[str, KeptText]:
        """Nothing is kept."""
        del name, ids
        return {}

    def take_changed(self) -> set[Key]:
        """What an earlier run kept, once, so that it leaves the state too."""
        gone, self._gone = self._gone, set()
        return gone

    def restore(self, kept: Iterable[KeptText]) -> None:
        """Nothing is taken up."""
        self._gone = {text.key for text in kept}


def _as_sampled(name: str) -> str:
    """The id as an array of a sample holds it: numpy takes NUL characters at the end for padding."""
    return name.rstrip("\0")

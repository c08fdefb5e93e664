"""Requests and responses, joined by their key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.payloads.contract import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

OTHER = {Kind.REQUEST: Kind.RESPONSE, Kind.RESPONSE: Kind.REQUEST}


@dataclass(frozen=True, slots=True)
class Half:
    """A request or a response that waits for the other. `arrival` is in epoch seconds."""

    kind: Kind
    key: str
    fields: dict[str, object]
    arrival: float
    origin: str

    @property
    def place(self) -> str:
        """What no other half that waits has."""
        return f"{self.kind}:{self.key}"


class Pairing:
    """The halves that wait, at most `most`, each at most `wait` seconds, in the order in which they came."""

    def __init__(self, wait: float, most: int) -> None:
        self._wait = wait
        self._most = most
        self._halves: dict[str, Half] = {}
        # Since when each waits, by the clock of `join` and `overdue`. Not since it arrived: where reading lags
        # behind, or after a stop, its other half may be among the next messages all the same.
        self._since: dict[str, float] = {}
        self._changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._halves)

    @property
    def halves(self) -> dict[str, Half]:
        """Every half that waits, by place."""
        return self._halves

    def holds(self, half: Half) -> bool:
        """Whether one of the same kind and key is waiting."""
        return half.place in self._halves

    def join(self, half: Half, now: float) -> tuple[Half, Half] | None:
        """The request and the response, if the other half of this one was waiting; otherwise it waits from `now`.

        ValueError for a second half of the same kind and key: see `holds`.
        """
        if self.holds(half):
            raise ValueError("a half of this kind and key is waiting")
        other = self._halves.get(f"{OTHER[half.kind]}:{half.key}")
        if other is None:
            self._halves[half.place] = half
            self._since[half.place] = now
            self._changed.add(half.place)
            return None
        self._let_go(other.place)
        return (half, other) if half.kind is Kind.REQUEST else (other, half)

    def overdue(self, now: float) -> list[Half]:
        """Take out the halves that have waited too long, or are the oldest of too many.

        Those restored since the last call begin to wait now.
        """
        if len(self._since) < len(self._halves):
            self._since = dict.fromkeys(self._halves, now) | self._since
        late: list[Half] = []
        for place, half in self._halves.items():
            if self._since[place] + self._wait > now and len(self._halves) - len(late) <= self._most:
                break
            late.append(half)
        for half in late:
            self._let_go(half.place)
        return late

    def _let_go(self, place: str) -> None:
        del self._halves[place]
        self._since.pop(place, None)
        self._changed.add(place)

    def take_changed(self) -> list[str]:
        """The places of halves that came or went since the last call; those gone are not in `halves`."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def snapshot(self) -> tuple[Half, ...]:
        """Every half that waits, oldest first."""
        return tuple(self._halves.values())

    def restore(self, halves: Iterable[Half]) -> None:
        """Let just these wait: what an earlier snapshot, or the state store, held."""
        before = set(self._halves)
        self._halves = {half.place: half for half in sorted(halves, key=lambda half: half.arrival)}
        self._since.clear()
        # One that had gone before, but is still in the store, must go there too.
        self._changed |= before | set(self._halves)


def joined(request: Half, response: Half) -> dict[str, object]:
    """The fields of both. Where both say something, such as the time, the request does: it came with the text."""
    return response.fields | request.fields

"""Where to read a partition from: the rule, apart from every network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"
OUT_OF_RANGE, RECREATED, OVERLAP = "out_of_range", "topic_recreated", "overlap"
COMMIT_FAILED = "commit_failed"
EVENTS = (ASSIGNED, REVOKED, LOST, OUT_OF_RANGE, RECREATED, OVERLAP, COMMIT_FAILED)

Policy = Literal["earliest", "latest", "stop"]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of one incarnation of a topic; `topic_id` is empty where the broker knows no ids."""

    topic: str
    topic_id: str
    number: int

    @property
    def key(self) -> str:
        """Its name among the positions of the state; a topic that was deleted and made again has another.

        >>> Partition("traffic", "", 2).key
        'traffic:2'
        """
        return f"{self._name(self.topic_id)}:{self.number}"

    def recreated(self, stored: Iterable[str]) -> bool:
        """Whether these are positions of the same topic name, but of another incarnation for this partition."""
        here, others = f"{self._name(self.topic_id)}:", []
        for key in stored:
            name, _, number = key.rpartition(":")
            if name.partition("@")[0] == self.topic:
                if key == self.key:
                    return False
                others.append((key.startswith(here), number))
        known_here = any(same for same, _ in others)
        # A partition that was added to the topic we know is new, not recreated.
        return any(not same and (number == str(self.number) or not known_here) for same, number in others)

    def _name(self, topic_id: str) -> str:
        return f"{self.topic}@{topic_id}" if topic_id else self.topic


@dataclass(frozen=True, slots=True)
class Committed:
    """What the broker has noted for the group, and whose state that offset is of."""

    offset: int
    owner: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the broker says of a partition: its first offset, its end, and what was committed.

    `gone` says that the broker has refused to read where we were.
    """

    first: int
    end: int
    committed: Committed | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides: the id of our own state, where a new group starts, and what to do where that is not there."""

    owner: str
    start: Literal["earliest", "latest"]
    out_of_range: Policy


@dataclass(frozen=True, slots=True)
class Placement:
    """Where to go on; None for nowhere, until someone steps in.

    `wanted` is where we would have gone on, `end` that of the log, `confirmed` what was committed for our state.
    """

    offset: int | None
    events: tuple[str, ...]
    wanted: int | None
    end: int
    confirmed: int | None = None


def place(partition: Partition, stored: Mapping[str, int], found: Found, rules: Rules) -> Placement:
    """Where to read from.

    Our own position, unless another replica has committed a later one; then that. With neither, `start`. Where
    that is no longer in the topic, or the topic is another one of the same name, the policy; never silently.
    """
    ours, committed = stored.get(partition.key), found.committed
    others = committed is not None and committed.owner != rules.owner
    if ours is None and partition.recreated(stored) and not others:
        # What we committed ourselves was committed to the topic before: the state would have the position.
        return _policy(found, rules, (RECREATED,), None)
    events: tuple[str, ...] = ()
    if ours is None:
        wanted = committed.offset if committed else _end(found, rules.start)
    elif committed is not None and others:
        wanted = max(ours, committed.offset)
        events = (OVERLAP,) if ours > committed.offset else ()
    else:
        wanted = ours
    if found.gone or not found.first <= wanted <= found.end:
        return _policy(found, rules, (*events, OUT_OF_RANGE), wanted)
    confirmed = None if committed is None or others else committed.offset
    return Placement(wanted, events, wanted, found.end, confirmed)


def _policy(found: Found, rules: Rules, events: tuple[str, ...], wanted: int | None) -> Placement:
    if rules.out_of_range == "stop":
        return Placement(None, events, wanted, found.end)
    return Placement(_end(found, rules.out_of_range), events, wanted, found.end)


def _end(found: Found, which: Literal["earliest", "latest"]) -> int:
    return found.first if which == "earliest" else found.end

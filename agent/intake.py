"""From messages to records: envelopes opened, formats decoded, halves joined, second deliveries told apart."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.batch import Batch
from agent.messages import DeadLetter, Message
from agent.pairing import Half, joined
from agent.payloads.contract import Kind, Part
from agent.payloads.envelope import opened
from agent.reasons import HARMLESS, Reason, RejectedError
from agent.records import Label, Record, from_fields, label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent.memory import Memory
    from agent.messages import Row
    from agent.payloads.contract import Payload
    from agent.records import Expected


@dataclass
class _Harvest:
    """What the messages of one batch have given so far."""

    records: list[Record] = field(default_factory=list)
    rejected: Counter[Reason] = field(default_factory=Counter)
    letters: list[DeadLetter] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    unpaired: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Intake:
    """Makes batches of messages. Nothing a message holds raises.

    `parts` decodes a payload, `halves` says which halves are wanted, `letters` asks for dead letters to be made.
    With `anew` each delivery is a new event, whatever its id and time say, as in a replay that starts again.
    """

    parts: Callable[[Payload, Message], Sequence[Part]]
    expected: Expected
    memory: Memory
    halves: str = "pair"
    letters: bool = False
    anew: bool = False
    clock: Callable[[], float] = time.monotonic

    def batch(
        self, messages: Sequence[Message | Row], positions: Mapping[str, int], *, ended: bool = False
    ) -> Batch:
        """The batch of these messages; with `ended`, and of every half that still waits."""
        harvest = _Harvest()
        waited = len(self.memory.pairing)
        for message in messages:
            if isinstance(message, Message):
                self._take(message, harvest)
            else:
                self._take_row(message, harvest)
        for half in self.memory.pairing.overdue(float("inf") if ended else self.clock()):
            self._give_up(half, harvest)
        return Batch(
            tuple(harvest.records),
            harvest.rejected,
            tuple(harvest.letters),
            tuple(harvest.labels),
            waiting=len(self.memory.pairing) - waited,
            unpaired=harvest.unpaired,
            positions=positions,
            ended=ended,
        )

    def _take(self, message: Message, harvest: _Harvest) -> None:
        """Every event of a message; what cannot be used of it becomes one letter a reason."""
        bad: list[Reason] = []  # a counter would cost as much as the fields of a record
        try:
            for payload in self._opened(message):
                if isinstance(payload, Reason):
                    bad.append(payload)
                else:
                    self._take_payload(payload, message, harvest, bad)
        except RejectedError as error:
            bad.append(error.reason)
        for reason, items in Counter(bad).items() if bad else ():
            if self.letters and reason not in HARMLESS:
                harvest.letters.append(DeadLetter(message, reason.value, items))
            else:
                harvest.rejected[reason] += items

    def _take_row(self, row: Row, harvest: _Harvest) -> None:
        """A row has no bytes to keep: what cannot be used is counted."""
        if isinstance(row.fields, Reason):
            harvest.rejected[row.fields] += 1
            return
        try:
            self._take_part(Part(Kind.RECORD, row.fields), row.origin, row.arrival, harvest)
        except RejectedError as error:
            harvest.rejected[error.reason] += 1

    def _opened(self, message: Message) -> Sequence[Payload | Reason]:
        if message.unreadable:
            raise RejectedError(Reason.UNREADABLE)
        if message.body is not None and len(message.body) > self.expected.most_bytes:
            raise RejectedError(Reason.TOO_LARGE)
        return opened(message)

    def _take_payload(self, payload: Payload, message: Message, harvest: _Harvest, bad: list[Reason]) -> None:
        try:
            parts = self.parts(payload, message)
        except RejectedError as error:
            bad.append(error.reason)
            return
        several = len(parts) > 1
        for place, part in enumerate(parts):
            origin = f"{message.origin}#{place}" if several else message.origin
            event = None if payload.identity is None else f"{payload.identity}#{place}"
            try:
                self._take_part(_dated(part, message), origin, message.arrival, harvest, event)
            except RejectedError as error:
                bad.append(error.reason)

    def _take_part(
        self, part: Part, origin: str, arrival: float, harvest: _Harvest, event: str | None = None
    ) -> None:
        """One part; `event` names it, where its envelope does, so that a second delivery is told."""
        if part.kind is Kind.RECORD:
            record = from_fields(part.fields, self.expected, origin, arrival)
            if self.anew:
                record = replace(record, id=f"{record.id}@{origin}", time=arrival)
            self._once(event or (f"record {record.id}" if record.id != origin else None))
            harvest.records.append(record)
        elif part.kind is Kind.LABEL:
            harvest.labels.append(label_of(part.fields, self.expected, arrival))
        elif self.halves not in {"pair", f"{part.kind}s"}:
            raise RejectedError(Reason.NOT_WANTED)
        else:
            name = event or (f"{part.kind} {part.key}" if part.key is not None else None)
            self._take_half(Half(part.kind, part.key or "", part.fields, arrival, origin), harvest, name)

    def _once(self, name: str | None) -> None:
        """RejectedError for a second delivery. Asked of what can be used: the rest may be mended and come."""
        if name is not None and not self.memory.seen.add(name):
            raise RejectedError(Reason.DUPLICATE)

    def _take_half(self, half: Half, harvest: _Harvest, name: str | None) -> None:
        """Used at once if it is wanted alone, or has no key to be joined by; otherwise joined, or kept waiting."""
        if self.halves != "pair" or not half.key:
            record = self._alone(half)
            self._once(name)
            harvest.records.append(record)
            return
        self._once(name)
        if self.memory.pairing.holds(half):
            raise RejectedError(Reason.DUPLICATE)
        pair = self.memory.pairing.join(half, self.clock())
        if pair is not None:
            request, _ = pair
            harvest.records.append(from_fields(joined(*pair), self.expected, request.origin, request.arrival))

    def _give_up(self, half: Half, harvest: _Harvest) -> None:
        """A half that waited in vain is used as far as it goes. Its message is gone, so it can only be counted."""
        harvest.unpaired[half.kind.value] += 1
        try:
            harvest.records.append(self._alone(half))
        except RejectedError as error:
            harvest.rejected[error.reason] += 1

    def _alone(self, half: Half) -> Record:
        """The record that one half makes: a request without its answer, or a response that repeats the text."""
        try:
            return from_fields(half.fields, self.expected, half.origin, half.arrival)
        except RejectedError as error:
            missing = _MISSING.get(half.kind, {}).get(error.reason)
            if missing is None:
                raise
            raise RejectedError(missing) from error


def _dated(part: Part, message: Message) -> Part:
    """The part; where it has no time, with that at which its message was written.

    So a second reading of the message gives it again. Not later than now: the clock of who wrote it may be ahead.
    """
    fields = part.fields
    if not message.stamp or fields.get("time") is not None or fields.get("timestamp") is not None:
        return part
    return replace(part, fields=fields | {"time": min(message.stamp, message.arrival)})


# What one half lacks when it would have come with the other.
_MISSING = {
    Kind.REQUEST: dict.fromkeys((Reason.NO_LOGITS, Reason.NO_FEATURES), Reason.NO_RESPONSE),
    Kind.RESPONSE: {Reason.NO_TEXT: Reason.NO_REQUEST},
}

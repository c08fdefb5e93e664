"""The intake: messages become records, halves are joined, second deliveries and useless messages are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.duplicates import Seen
from agent.intake import Intake
from agent.ledger import Ledger
from agent.memory import Memory
from agent.messages import DeadLetter, Message, Row
from agent.pairing import Pairing
from agent.payloads.formats import parts_of
from agent.reasons import Reason
from agent.records import Expected, Label
from agent.slices import Slices
from agent.source_config import KafkaSourceConfig

if TYPE_CHECKING:
    from agent.batch import Batch

NOW = 1_787_306_400.0
LABELS = ("negative", "positive")


class Clock:
    """Seconds that are set."""

    now = NOW

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def intake_of(clock: Clock | None = None, *, logits: int = 0, letters: bool = False, **options: Any) -> Intake:  # noqa: ANN401
    """An intake for messages in this format."""
    config = KafkaSourceConfig(servers=("a:1",), topics=("traffic",), **options)
    memory = Memory(Slices(1), Pairing(config.wait, config.waiting), Seen(config.remember))
    expected = Expected("sentiment", frozenset(LABELS), logits=logits)
    parts = parts_of(config, LABELS)
    return Intake(parts, expected, memory, config.halves, letters=letters, clock=clock or Clock())


def message(content: object, origin: str = "traffic:0:1", arrival: float = NOW, **headers: str) -> Message:
    """A message of JSON; bytes and None go as they are."""
    body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
    return Message(body, origin, arrival, headers=tuple((name, value.encode()) for name, value in headers.items()))


def event(kind: str, content: object, name: str = "e1", arrival: float = NOW) -> Message:
    """A CloudEvent as KServe's logger writes it to Kafka."""
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": name,
        "ce_source": "http://localhost:9081/",
        "ce_type": f"org.kubeflow.serving.inference.{kind}",
    }
    return message(content, f"traffic:0:{name}", arrival, **attributes)


REQUEST = {"instances": ["great film", "awful"]}
RESPONSE = {"predictions": [1, 0]}


def texts(batch: Batch) -> list[tuple[str, Any]]:
    """What a batch's records say."""
    return [(record.text, record.prediction) for record in batch.records]


def test_positions_and_the_end_pass_through() -> None:
    """The batch goes on where the source says, and ends when it does."""
    batch = intake_of().batch([message({"text": "a"})], {"traffic:0": 2}, ended=True)
    assert (batch.positions, batch.ended, batch.received, texts(batch)) == (
        {"traffic:0": 2},
        True,
        1,
        [("a", None)],
    )


def test_a_record_without_an_id_is_named_by_its_place() -> None:
    """The origin is the id, so the same message always gives the same record, and it is no second delivery."""
    intake = intake_of()
    one, two = intake.batch(
        [message({"text": "a"}, "traffic:0:7"), message({"text": "a"}, "traffic:0:8")], {}
    ).records
    assert (one.id, two.id, one.time) == ("traffic:0:7", "traffic:0:8", NOW)


def test_a_message_that_no_transport_can_read_is_a_letter_without_content() -> None:
    """It is told from a tombstone, which is harmless, and its origin says where to look for it."""
    lost = Message(None, "traffic:0:7", NOW, unreadable=True)
    kept = intake_of(letters=True).batch([lost, message(None)], {})
    assert kept.letters == (DeadLetter(lost, "unreadable"),)
    assert kept.rejected == {Reason.TOMBSTONE: 1}
    assert intake_of().batch([lost], {}).rejected == {Reason.UNREADABLE: 1}


def test_a_second_delivery_is_counted_and_dropped() -> None:
    """The same id again is a duplicate, however far apart; an id that failed before is not."""
    intake = intake_of()
    first = intake.batch([message({"id": "1", "text": ""}), message({"id": "1", "text": "a"})], {})
    again = intake.batch([message({"id": "1", "text": "a"})], {})
    assert (first.rejected, texts(first)) == ({Reason.EMPTY_TEXT: 1}, [("a", None)])
    assert (again.rejected, again.records, again.received) == ({Reason.DUPLICATE: 1}, (), 1)


def test_a_second_delivery_of_an_event_costs_all_its_items() -> None:
    """An event is told by its source, id and type: its items count as duplicates, each once."""
    intake = intake_of(format="kserve", halves="requests")
    assert intake.batch([event("request", REQUEST)], {}).received == 2
    assert intake.batch([event("request", REQUEST)], {}).rejected == {Reason.DUPLICATE: 2}


def test_without_a_memory_every_delivery_counts() -> None:
    """`remember: 0` takes each message for a new one."""
    intake = intake_of(remember=0)
    assert len(intake.batch([message({"id": "1", "text": "a"})] * 3, {}).records) == 3


@pytest.mark.parametrize("response_first", [False, True])
def test_halves_become_one_record(*, response_first: bool) -> None:
    """Request and response of one id are joined item by item, in whichever order they come, and count once."""
    intake = intake_of(format="kserve")
    halves = [event("request", REQUEST), event("response", RESPONSE)]
    first, second = reversed(halves) if response_first else halves
    waiting, whole = intake.batch([first], {}), intake.batch([second], {})
    assert (waiting.records, waiting.waiting, waiting.received) == ((), 2, 2)
    assert (whole.waiting, whole.received) == (-2, 0)
    assert texts(whole) == [("great film", "positive"), ("awful", "negative")]


def test_a_request_that_waits_in_vain_is_used_alone() -> None:
    """After `wait` seconds a request is scored without its response, and counted as unpaired."""
    clock = Clock()
    intake = intake_of(clock, format="kserve", wait="30s")
    intake.batch([event("request", REQUEST)], {})
    clock.now += 29
    assert intake.batch([], {}).records == ()
    clock.now += 2
    late = intake.batch([], {})
    assert (texts(late), late.unpaired) == ([("great film", None), ("awful", None)], {"request": 2})
    assert (late.received, late.waiting) == (0, -2)


def test_a_request_whose_model_must_answer_is_discarded() -> None:
    """Where the reference needs the model's logits, a request alone is of no use, for that reason."""
    intake = intake_of(format="kserve", logits=2)
    intake.batch([event("request", REQUEST)], {})
    assert intake.batch([], {}, ended=True).rejected == {Reason.NO_RESPONSE: 2}


def test_a_half_waits_from_when_it_was_read() -> None:
    """However old its message, and however long the agent was away, its other half has `wait` seconds to come."""
    clock = Clock()
    intake = intake_of(clock, format="kserve", wait="30s")
    old = [event("request", REQUEST, arrival=NOW - 9_000), event("response", RESPONSE, arrival=NOW - 8_000)]
    assert intake.batch(old[:1], {}).records == ()
    halves = intake.memory.pairing.snapshot()
    clock.now += 9_000
    again = intake_of(clock, format="kserve", wait="30s")
    again.memory.pairing.restore(halves)
    assert again.batch([], {}).records == ()
    clock.now += 29
    assert texts(again.batch(old[1:], {})) == [("great film", "positive"), ("awful", "negative")]


def test_restored_halves_wait_together() -> None:
    """All that were restored begin to wait at one moment, and are given up at one moment."""
    clock = Clock()
    intake = intake_of(clock, format="kserve", wait="30s")
    intake.batch([event("request", {"instances": [name]}, name) for name in "abc"], {})
    intake.memory.pairing.restore(intake.memory.pairing.snapshot())
    assert intake.batch([], {}).records == ()
    clock.now += 31
    assert intake.batch([], {}).unpaired == {"request": 3}


def test_an_event_that_could_not_be_used_may_come_again() -> None:
    """Mended and sent again under the same id, it counts; what could be used the first time is a duplicate."""
    intake = intake_of(format="kserve", halves="requests")
    assert intake.batch([event("request", {"instances": ["good", ""]})], {}).rejected == {Reason.EMPTY_TEXT: 1}
    again = intake.batch([event("request", {"instances": ["good", "mended"]})], {})
    assert (texts(again), again.rejected) == ([("mended", None)], {Reason.DUPLICATE: 1})


def test_a_pair_that_cannot_be_used_is_a_letter() -> None:
    """The message that completes the pair is kept; the inference stays one in the balance."""
    intake = intake_of(letters=True, format="kserve", logits=2)
    intake.batch([event("request", REQUEST)], {})
    completing = event("response", RESPONSE)
    batch = intake.batch([completing], {})
    assert batch.letters == (DeadLetter(completing, "no_logits", 2),)
    assert (batch.received, batch.waiting) == (0, -2)


def test_a_record_without_a_time_has_that_of_its_message() -> None:
    """When the transport says it was written dates it, the same at each reading; but not later than now."""
    intake = intake_of()
    stamps = [NOW - 500.0, NOW + 500.0, 0.0]
    messages = [replace(message({"text": "a"}, f"t:0:{stamp}"), stamp=stamp) for stamp in stamps]
    own = replace(message({"text": "a", "time": NOW - 7}, "t:0:9"), stamp=NOW - 500)
    batch = intake.batch([*messages, own], {})
    assert [record.time for record in batch.records] == [NOW - 500, NOW, NOW, NOW - 7]


def test_a_response_that_waits_in_vain_is_discarded() -> None:
    """A response has no text: alone it is counted as unpaired, and discarded because no request came."""
    intake = intake_of(format="kserve")
    intake.batch([event("response", RESPONSE)], {})
    last = intake.batch([], {}, ended=True)
    assert (last.rejected, last.unpaired) == ({Reason.NO_REQUEST: 2}, {"response": 2})


def test_too_many_that_wait_push_the_oldest_out() -> None:
    """Beyond `waiting` halves the oldest is used alone, so that memory has a bound."""
    intake = intake_of(format="kserve", waiting=1)
    intake.batch([event("request", {"instances": ["old"]}, "1")], {})
    batch = intake.batch([event("request", {"instances": ["new"]}, "2")], {})
    assert (texts(batch), batch.unpaired, len(intake.memory.pairing)) == ([("old", None)], {"request": 1}, 1)


def test_requests_alone_do_not_wait() -> None:
    """`halves: requests` scores requests at once, and discards responses as not wanted."""
    intake = intake_of(format="kserve", halves="requests")
    batch = intake.batch([event("request", REQUEST), event("response", RESPONSE)], {})
    assert (texts(batch), batch.rejected) == ([("great film", None), ("awful", None)], {Reason.NOT_WANTED: 2})


def test_responses_alone_need_a_text() -> None:
    """`halves: responses` uses responses at once; one that does not repeat the text is discarded."""
    intake = intake_of(format="kserve", halves="responses")
    batch = intake.batch([event("request", REQUEST), event("response", RESPONSE)], {})
    assert batch.rejected == {Reason.NOT_WANTED: 2, Reason.NO_REQUEST: 2}


def test_a_label_on_its_own_is_no_record() -> None:
    """Labels are handed on with the id they are for; they are not in the balance. One without an id is refused."""
    batch = intake_of().batch([message({"id": "7", "label": "negative"}), message({"label": "negative"})], {})
    assert batch.labels == (Label("7", "negative", NOW),)
    assert (batch.received, batch.rejected) == (1, {Reason.LABEL_ONLY: 1})


def test_what_cannot_be_used_becomes_a_letter() -> None:
    """With dead letters asked for, a useless message becomes one for each reason, with how many items it cost."""
    intake = intake_of(letters=True, format="kserve", halves="requests")
    half, none = event("request", {"instances": ["good", "", " "]}), message(b"{")
    batch = intake.batch([half, none], {})
    assert texts(batch) == [("good", None)]
    assert batch.letters == (DeadLetter(half, "empty_text", 2), DeadLetter(none, "not_json"))
    assert (batch.received, batch.unusable, batch.rejected) == (4, 3, {})


def test_what_is_no_fault_of_the_message_is_no_letter() -> None:
    """Tombstones, second deliveries and other models' records are counted only, and open no breaker."""
    intake = intake_of(letters=True)
    twice = message({"id": "1", "text": "a"})
    batch = intake.batch([message(None), twice, twice, message({"text": "a", "model": "other"})], {})
    assert batch.letters == ()
    assert batch.rejected == {Reason.TOMBSTONE: 1, Reason.DUPLICATE: 1, Reason.OTHER_MODEL: 1}
    assert batch.unusable == 0


def test_a_message_that_is_too_large_is_not_parsed() -> None:
    """The bound on a message's bytes holds before anything is made of it."""
    assert intake_of().batch([message(b" " * ((1 << 20) + 1))], {}).rejected == {Reason.TOO_LARGE: 1}


def test_rows_of_tables_are_records_too() -> None:
    """A row is taken as native fields; a malformed one is counted under its reason, and is no letter."""
    intake = intake_of(letters=True)
    rows = [Row({"text": "a"}, "file:1", NOW), Row(Reason.MALFORMED_ROW, "file:2", NOW), Row({}, "file:3", NOW)]
    batch = intake.batch(rows, {})
    assert texts(batch) == [("a", None)]
    assert batch.rejected == {Reason.MALFORMED_ROW: 1, Reason.NO_TEXT: 1}
    assert batch.letters == ()


deliveries = st.lists(
    st.tuples(st.sampled_from(["request", "response"]), st.integers(0, 5), st.booleans()), max_size=40
)


@given(sequence=deliveries, cuts=st.integers(1, 7), letters=st.booleans())
def test_the_balance_holds_after_every_batch(sequence: list[Any], cuts: int, *, letters: bool) -> None:
    """Whatever halves come, twice, broken or alone: each inference is in one place, and at the end none waits."""
    intake, ledger = intake_of(format="kserve", letters=letters, waiting=3), Ledger("kafka", ())
    messages = [
        event(kind, {"nothing": 1} if broken else REQUEST if kind == "request" else RESPONSE, str(name))
        for kind, name, broken in sequence
    ]
    scoring = 0
    for start in range(0, len(messages) + cuts, cuts):
        batch = intake.batch(messages[start : start + cuts], {}, ended=start + cuts > len(messages))
        ledger.receive(batch)
        scoring += len(batch.records)
        waiting = len(intake.memory.pairing)
        undelivered = sum(letter.items for letter in batch.letters)
        assert ledger.counts.in_flight == scoring + waiting + undelivered
        ledger.delivered(batch.letters)
    counts = ledger.counts
    settled = sum(counts.discarded.values()) + sum(counts.dead_lettered.values())
    assert counts.received["kafka"] == scoring + settled
    assert len(intake.memory.pairing) == 0


@given(sequence=deliveries, cut=st.integers(0, 40))
def test_a_restored_memory_goes_on_as_if_nothing_had_happened(sequence: list[Any], cut: int) -> None:
    """What waits and what was seen, taken from a snapshot, gives the same records as one uninterrupted intake."""
    messages = [event(kind, REQUEST if kind == "request" else RESPONSE, str(name)) for kind, name, _ in sequence]
    whole, before, after = (intake_of(format="kserve") for _ in range(3))
    expected = texts(whole.batch(messages, {}, ended=True))
    found = texts(before.batch(messages[:cut], {}))
    after.memory.pairing.restore(before.memory.pairing.snapshot())
    after.memory.seen.restore(before.memory.seen.snapshot())
    found += texts(after.batch(messages[cut:], {}, ended=True))
    assert found == expected

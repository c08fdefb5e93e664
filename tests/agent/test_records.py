"""Records: real traffic is accepted, and every other input has one named reason."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.batch import Batch
from agent.duplicates import Seen
from agent.intake import Intake
from agent.memory import Memory
from agent.messages import Message
from agent.pairing import Pairing
from agent.payloads.formats import parts_of
from agent.reasons import Reason, RejectedError
from agent.records import CLOCK_SKEW, LONGEST_ID, MOST_TOKENS, Expected, Record, epoch, from_fields
from agent.slices import Slices
from agent.source_config import PayloadConfig

NOW = 1_787_306_400.0  # 2026-08-21T10:00:00Z
MODEL = Expected("sentiment", frozenset({"negative", "positive", "1"}), logits=2, features=3)
PLAIN = Expected("sentiment", frozenset({"negative", "positive", "1"}))
TAGGER = Expected("tagger", frozenset({"NOUN", "VERB", "1"}), logits=2, tokens=True)
GOOD = {"text": "great film", "logits": [-1, 1.5], "features": [0, 0.5, 1]}


TAGGED = {"tokens": ["dogs", "bark"], "logits": [[2, -1.5], [0, 1]]}


def parse(content: bytes, expected: Expected, origin: str, arrival: float) -> Record:
    """The record on one line of native JSON, as the intake makes it. RejectedError otherwise."""
    memory = Memory(Slices(1), Pairing(60, 1), Seen(0))
    intake = Intake(parts_of(PayloadConfig(), ()), expected, memory)
    batch = intake.batch([Message(content, origin, arrival)], {})
    for reason in batch.rejected:
        raise RejectedError(reason)
    (record,) = batch.records
    return record


def line(**fields: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """A good record with these fields instead."""
    return json.dumps(GOOD | fields).encode()


def without(*names: str) -> bytes:
    """A good record without these fields."""
    return json.dumps({name: value for name, value in GOOD.items() if name not in names}).encode()


def reason_of(content: bytes, expected: Expected = MODEL) -> Reason:
    """Why this line is rejected."""
    with pytest.raises(RejectedError) as caught:
        parse(content, expected, "file:1", NOW)
    return caught.value.reason


POISON: dict[Reason, list[bytes]] = {
    Reason.NOT_JSON: [
        b"",
        b"\x00",
        b"plain text",
        b'{"text": "great fi',
        b'{"text": "a",}',
        b"{'text': 'a'}",
        b'{"text": "\x00"}',
        b'{"text": "caf\xe9"}',
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"text": "a", "id": ' + b"9" * 5_000 + b"}",
        b'{"text": "a"} {"text": "b"}',
    ],
    Reason.NOT_AN_OBJECT: [b"null", b"[]", b'"text"', b"1", b"NaN", b"-Infinity", b'[{"text": "a"}]'],
    Reason.TOO_LARGE: [line(text="x" * (1 << 20)), b" " * ((1 << 20) + 1)],
    Reason.MALFORMED_ROW: [],  # no line: a row of a CSV table, in test_file_source
    Reason.LABEL_ONLY: [b'{"label": "negative"}', b'{"label": null}'],
    Reason.NO_TEXT: [b"{}", without("text"), line(text="a").replace(b'"text"', b'"Text"')],
    Reason.TEXT_NOT_STRING: [line(text=value) for value in (None, 1, True, [], {}, ["a"], math.nan)],
    Reason.EMPTY_TEXT: [line(text=value) for value in ("", " ", "\t\r\n", "\u2003\u00a0")],
    Reason.WRONG_TYPE: [
        line(**{name: value})
        for name in ("id", "text_pair", "slice", "prediction", "label")
        for value in (True, [], {}, math.nan, math.inf, -math.inf)
    ],
    Reason.ID_TOO_LONG: [line(id="x" * (LONGEST_ID + 1)), line(id=10**LONGEST_ID)],
    Reason.INVALID_TIME: [
        line(time=value)
        for value in (
            "", "yesterday", "2026-08-21T25:00:00Z", "2026-02-30T00:00:00Z", "10000-01-01T00:00:00Z", "0000-00-00",
            "2016-12-31T23:59:60Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", -1, -0.5, True, False, [],
            {}, math.nan, math.inf, -math.inf, 1_787_306_400_000, 10**400, "nan", "inf", "-5",
            "2026-08-21T10:00:00+25:00", "9999-12-31T23:59:59-12:00",
        )
    ],
    Reason.FUTURE_TIME: [
        line(time=NOW + CLOCK_SKEW + 1), line(time="2026-08-21T10:05:01Z"), line(time="9999-12-31T23:59:59Z"),
        line(time=253_402_300_799),
    ],
    Reason.LATE: [],  # only the windows know: test_state.py
    Reason.OTHER_MODEL: [line(model=value) for value in ("toxicity", "", 1, [], {}, False, "Sentiment")],
    Reason.UNKNOWN_LABEL: [
        line(**{name: value}) for name in ("prediction", "label") for value in ("neutral", "", "Positive", 2, 1.0)
    ],
    Reason.NO_LOGITS: [without("logits"), line(logits=None)],
    Reason.LOGITS_WIDTH: [line(logits=value) for value in ([], [1], [1, 2, 3], "ab", 2, {"0": 1, "1": 2}, [[1]])],
    Reason.LOGITS_NOT_FINITE: [
        line(logits=[0, value])
        for value in (math.nan, math.inf, -math.inf, 10**400, -(10**400), 1e300, None, "1", True, [1], {})
    ] + [line(logits=[0, 7]).replace(b"7", b"1e999")],
    Reason.NO_FEATURES: [without("features"), line(features=None)],
    Reason.FEATURES_WIDTH: [line(features=[1, 2]), line(features="abc"), line(features=[])],
    Reason.FEATURES_NOT_FINITE: [line(features=[0, 1, math.nan]), line(features=[0, 1, 10**400])],
}  # fmt: skip


def tagged(**fields: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """A good record of a sequence labeller with these fields instead; None takes one away."""
    content = {name: value for name, value in (TAGGED | fields).items() if value is not None}
    return json.dumps(content).encode()


TOKEN_POISON: dict[Reason, list[bytes]] = {
    Reason.NO_TEXT: [tagged(tokens=None)],
    Reason.LABEL_ONLY: [tagged(tokens=None, label=["NOUN", "VERB"])],
    Reason.NO_TOKENS: [tagged(tokens=[]), tagged(tokens=None, text="dogs bark"), tagged(tokens=[], text="dogs")],
    Reason.TOKENS_NOT_STRINGS: [
        tagged(tokens=value)
        for value in ("dogs bark", {"0": "dogs"}, 2, True, ["dogs", 1], ["dogs", None], [["a"]])
    ],
    Reason.EMPTY_TEXT: [tagged(tokens=["", " "]), tagged(text=" ")],
    Reason.TOO_LARGE: [tagged(tokens=["x"] * (MOST_TOKENS + 1))],
    Reason.NO_LOGITS: [tagged(logits=None), tagged(logits=[[0, 1], None])],
    Reason.TOKENS_MISMATCH: [
        tagged(logits=[]),
        tagged(logits=[[0, 1]]),
        tagged(logits=[[0, 1]] * 3),
        tagged(label=["NOUN"]),
        tagged(prediction=[]),
    ],
    Reason.LOGITS_WIDTH: [
        tagged(logits=value)
        for value in ("ab", 5, {"0": [0, 1]}, [1, 2], [[0, 1], [0]], [[0, 1], [0, 1, 2]], [[], []])
    ],
    Reason.LOGITS_NOT_FINITE: [
        tagged(logits=[[0, 1], [0, value]]) for value in (math.nan, math.inf, 10**400, None, "1", True, [1])
    ],
    Reason.WRONG_TYPE: [tagged(label="NOUN"), tagged(prediction={"0": "NOUN"}), tagged(label=["NOUN", []])],
    Reason.UNKNOWN_LABEL: [tagged(label=["NOUN", "ADJ"]), tagged(prediction=["NOUN", None])],
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "content"),
    [
        pytest.param(reason, content, id=f"{reason}-{place}")
        for reason, examples in TOKEN_POISON.items()
        for place, content in enumerate(examples)
    ],
)
def test_poison_for_a_sequence_labeller_is_rejected_for_its_reason(reason: Reason, content: bytes) -> None:
    """What does not give every token its logits, or its label where there are labels, has a reason of its own."""
    assert reason_of(content, TAGGER) is reason


def test_a_sequence_labellers_record_is_read() -> None:
    """Each token has its logits, its prediction and its label; the text is the tokens, unless there is one."""
    assert parse(tagged(label=["NOUN", 1], prediction=["NOUN", "VERB"]), TAGGER, "file:1", NOW) == Record(
        id="file:1",
        text="dogs bark",
        time=NOW,
        prediction=("NOUN", "VERB"),
        label=("NOUN", "1"),
        token_logits=((2.0, -1.5), (0.0, 1.0)),
    )
    assert parse(tagged(text="Dogs bark!"), TAGGER, "file:1", NOW).text == "Dogs bark!"


def test_tokens_alone_are_a_text_for_a_classifier_too() -> None:
    """A classifier reads the tokens where there is no text, and ignores them where there is one."""
    assert parse(b'{"tokens": ["great", "film"]}', PLAIN, "file:1", NOW) == Record("file:1", "great film", NOW)
    assert parse(b'{"text": "a", "tokens": 5}', PLAIN, "file:1", NOW) == Record("file:1", "a", NOW)


def test_tokens_of_a_tables_row_have_a_bound() -> None:
    """Together they may be as long as a line, since a row comes without a bound of its own."""
    half = "x" * (1 << 19)
    logits = [[0, 1]] * 2
    assert from_fields({"tokens": [half, half], "logits": logits}, TAGGER, "file:1", NOW)
    with pytest.raises(RejectedError, match="too_large"):
        from_fields({"tokens": [half, half + "x"], "logits": logits}, TAGGER, "file:1", NOW)


# Found before a record's fields are looked at, or after it was made: the intake, the payloads, the state.
ELSEWHERE = {
    Reason.UNREADABLE,
    Reason.TOMBSTONE,
    Reason.DUPLICATE,
    Reason.NOT_AN_EVENT,
    Reason.NOT_THIS_FORMAT,
    Reason.MISALIGNED,
    Reason.TOO_MANY_ITEMS,
    Reason.NO_REQUEST,
    Reason.NO_RESPONSE,
    Reason.NOT_WANTED,
    Reason.PARTITION_LOST,
    Reason.SCORING_FAILED,
}


def test_every_reason_has_an_example() -> None:
    """A reason without an input that leads to it is missing from the tests, or cannot happen."""
    assert {*POISON, *TOKEN_POISON} == set(Reason) - ELSEWHERE
    assert [reason for reason, examples in POISON.items() if not examples] == [Reason.MALFORMED_ROW, Reason.LATE]


@pytest.mark.parametrize(
    ("reason", "content"),
    [
        pytest.param(reason, content, id=f"{reason}-{place}")
        for reason, examples in POISON.items()
        for place, content in enumerate(examples)
    ],
)
def test_poison_is_rejected_for_its_reason(reason: Reason, content: bytes) -> None:
    """Each bad line is rejected, with the reason that says what to do about it."""
    assert reason_of(content) is reason


def test_a_whole_record_is_read() -> None:
    """Every field of the native record lands in its place."""
    fields = {
        "id": "9f1c", "time": "2026-08-21T09:59:00Z", "model": "sentiment", "model_version": "3",
        "slice": "tenant-a", "text": "great film", "text_pair": "second", "prediction": "positive",
        "probabilities": {"positive": 0.9, "negative": 0.1}, "logits": [-1.5, 1], "features": [0.5, 0, 1],
        "label": "negative", "unknown": [1, {"two": 3}],
    }  # fmt: skip
    assert parse(json.dumps(fields).encode(), MODEL, "file:1", NOW) == Record(
        id="9f1c",
        text="great film",
        time=NOW - 60,
        pair="second",
        slice="tenant-a",
        prediction="positive",
        label="negative",
        logits=(-1.5, 1.0),
        features=(0.5, 0.0, 1.0),
    )


@pytest.mark.parametrize("given_id", [b"", b', "id": null', b', "id": ""'])
def test_only_the_text_is_required(given_id: bytes) -> None:
    """A record without id and time is named by its position and dated by its arrival."""
    assert parse(b'{"text": "a"' + given_id + b"}", PLAIN, "file:7", NOW) == Record("file:7", "a", NOW)


def test_nulls_are_absent() -> None:
    """Every field but the text may be null, which is the same as leaving it out."""
    names = (
        "id",
        "time",
        "model",
        "slice",
        "text_pair",
        "prediction",
        "probabilities",
        "logits",
        "features",
        "label",
    )
    fields = {"text": "a"} | dict.fromkeys(names)
    assert from_fields(fields, PLAIN, "file:7", NOW) == Record("file:7", "a", NOW)


@pytest.mark.parametrize("field", ["logits", "features"])
@pytest.mark.parametrize("value", [[], "x", [math.nan], {"a": 1}, 5])
def test_what_the_model_does_not_need_is_ignored(field: str, value: object) -> None:
    """A head on the embeddings needs neither logits nor features, so nothing in them is wrong."""
    assert parse(line(**{field: value}), PLAIN, "file:1", NOW).logits is None


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("2026-08-21T10:00:00Z", 0.0),
        ("2026-08-21T10:00:00.123456789Z", 0.123456),
        ("2026-08-21T10:00:00.5Z", 0.5),
        ("2026-08-21T12:00:00+02:00", 0.0),
        ("2026-08-21T04:30:00.25-05:30", 0.25),
        ("2026-08-21t10:00:00z", 0.0),
        ("2026-08-21 10:00:00+00:00", 0.0),
        ("2026-08-21T10:00:00", 0.0),
        ("2026-08-21T10:04:59Z", 299.0),
        ("1787306400.25", 0.25),
        (1_787_306_400, 0.0),
        (1_787_306_400.125, 0.125),
        (NOW + CLOCK_SKEW, CLOCK_SKEW),
        (0, -NOW),
        ("1970-01-01T00:00:00Z", -NOW),
        (datetime(2026, 8, 21, 10, tzinfo=UTC), 0.0),
        (datetime(2026, 8, 21, 12, tzinfo=timezone(timedelta(hours=2))), 0.0),
        (datetime(2026, 8, 21, 10), 0.0),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_times_of_real_traffic_are_read(moment: object, seconds: float) -> None:
    """RFC 3339 with any number of digits, local times as UTC, epoch seconds as number or text."""
    record = from_fields({"text": "a", "time": moment}, PLAIN, "file:1", NOW)
    assert record.time == pytest.approx(NOW + seconds, abs=1e-6)
    assert epoch(moment) == record.time


def test_a_time_without_a_zone_is_utc_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own zone plays no part."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "XXX-5")
        time.tzset()
        assert epoch("2026-08-21T10:00:00") == NOW
        assert epoch(datetime(2026, 8, 21, 10)) == NOW  # noqa: DTZ001 - naive on purpose
    time.tzset()


def test_a_text_may_be_as_long_as_a_line() -> None:
    """A line of exactly the limit is read, one byte more is not; so is the text of a table's row."""
    frame = len(b'{"text": ""}')
    content = b'{"text": "%s"}' % (b"x" * ((1 << 20) - frame))
    assert len(parse(content, PLAIN, "file:1", NOW).text) == (1 << 20) - frame
    assert reason_of(content + b" ", PLAIN) is Reason.TOO_LARGE
    assert from_fields({"text": "x" * (1 << 20)}, PLAIN, "file:1", NOW)
    for name in ("text", "text_pair"):
        with pytest.raises(RejectedError, match="too_large"):
            from_fields({"text": "a", name: "x" * ((1 << 20) + 1)}, PLAIN, "file:1", NOW)


@pytest.mark.parametrize("field", ["text", "text_pair", "id", "slice"])
def test_lone_surrogates_are_replaced(field: str) -> None:
    """JSON can smuggle in half a character; what reaches encoder and database can be encoded."""
    record = parse(b'{"text": "a", "%s": "x\\ud800y"}' % field.encode(), PLAIN, "file:1", NOW)
    assert "x?y" in (record.text, record.pair, record.id, record.slice)
    parse(b'{"text": "a", "%s": "\\ud83d\\udc1f"}' % field.encode(), PLAIN, "file:1", NOW)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'\xef\xbb\xbf{"text": "after a byte order mark"}', "after a byte order mark"),
        (b'{"text": "first", "text": "last"}', "last"),
        (b'  {"text": "null \\u0000 byte"}\r', "null \0 byte"),
        ('{"text": "größe 🐟"}'.encode(), "größe 🐟"),
    ],
)
def test_odd_lines_that_are_records(content: bytes, text: str) -> None:
    """A byte order mark, a key that is repeated, an escaped null byte: odd, but clear."""
    assert parse(content, PLAIN, "file:1", NOW).text == text


@pytest.mark.parametrize(
    ("value", "name"), [(7, "7"), (0, "0"), (1.5, "1.5"), ("x" * LONGEST_ID, "x" * LONGEST_ID)]
)
def test_numbers_are_names_too(value: object, name: str) -> None:
    """An id or a slice that is a number is the text of it."""
    record = from_fields({"text": "a", "id": value, "slice": value}, PLAIN, "file:1", NOW)
    assert (record.id, record.slice) == (name, name)


def test_a_class_index_can_be_a_label() -> None:
    """Where the model's labels are digits, numbers in the traffic match them."""
    assert parse(line(prediction=1, label=1), MODEL, "file:1", NOW).prediction == "1"


def test_another_field_can_be_the_slice() -> None:
    """The configured field is what slices are made of."""
    expected = Expected("sentiment", frozenset(), slice_field="model_version")
    assert parse(b'{"text": "a", "model_version": 3, "slice": "b"}', expected, "", NOW).slice == "3"


def test_a_batch_knows_how_many_rows_it_came_from() -> None:
    """Received is what was read, usable or not."""
    assert Batch((Record("1", "a", 0.0),), {Reason.NOT_JSON: 2, Reason.NO_TEXT: 3}).received == 6
    assert Batch().received == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        "id",
        "time",
        "model",
        "slice",
        "text",
        "text_pair",
        "tokens",
        "prediction",
        "probabilities",
        "logits",
        "features",
        "label",
    ]
)


def check(content: bytes, expected: Expected = MODEL) -> None:
    """Either a usable record, or a reason; never another error."""
    try:
        record = parse(content, expected, "file:1", NOW)
    except RejectedError:
        return
    assert record.text.strip()
    assert all(math.isfinite(value) for value in (record.time, *(record.logits or ()), *(record.features or ())))
    assert 0 <= record.time <= NOW + CLOCK_SKEW
    for value in (record.id, record.text, record.pair or "", record.slice or ""):
        value.encode()


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    """Arbitrary bytes are a record or rejected."""
    check(content)


@settings(max_examples=300)
@given(st.dictionaries(NAMES, JSON))
def test_no_json_raises_anything_else(fields: dict[str, object]) -> None:
    """Arbitrary JSON in any field of a good record is a record or rejected."""
    check(json.dumps(GOOD | fields).encode())
    check(json.dumps(TAGGED | fields).encode(), TAGGER)
    check(json.dumps(fields).encode())

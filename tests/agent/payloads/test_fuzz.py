"""Fuzzing of every parser: a moment of it here, and as long as LEADLINE_FUZZ_SECONDS says for each.

Rounds are numbered and each is repeatable; more seconds are more rounds.
"""

from __future__ import annotations

import copy
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from agent.payloads.contract import Kind, Part, Payload
from agent.payloads.envelope import opened
from agent.payloads.mapping import NATIVE
from agent.payloads.paths import compiled, found
from agent.reasons import Reason, RejectedError
from agent.records import Expected, from_fields
from tests.agent.payloads.examples import ARRIVAL, LABELS, formats_used
from tests.agent.payloads.mutations import JSON, messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.messages import Message
    from agent.payloads.formats import Format

SECONDS = float(os.environ.get("LEADLINE_FUZZ_SECONDS") or 0)
EXAMPLES_A_ROUND = 500 if SECONDS else 150
EXPECTED = Expected("sentiment", frozenset(LABELS), logits=2, features=3)
FORMS = formats_used()


def fuzz(check: Callable[..., None], *strategies: st.SearchStrategy[Any]) -> None:
    """One round, and then more until the time is over."""
    quiet = settings(
        max_examples=EXAMPLES_A_ROUND,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    end, number = time.monotonic() + SECONDS, 0
    while number == 0 or time.monotonic() < end:
        seed(number)(quiet(given(*strategies)(check)))()
        number += 1


def payloads_of(message: Message) -> list[Payload]:
    """The payloads of a message, if it has any. Only a RejectedError may come instead."""
    with suppress(RejectedError):
        return [each for each in opened(message) if not isinstance(each, Reason)]
    return []


def parts_of(form: Format, payload: Payload, message: Message) -> list[Part]:
    """The parts of a payload, if it has any; a RejectedError may come instead. The content is left alone."""
    before = copy.deepcopy(payload.content)
    parts: list[Part] = []
    with suppress(RejectedError):
        parts += form.parts(payload, message, LABELS)
    assert json.dumps(payload.content) == json.dumps(before)  # NaN is not equal to itself
    return parts


def check_part(part: Part) -> None:
    """A part can be stored, and makes a record or has a reason."""
    if part.kind in {Kind.REQUEST, Kind.RESPONSE}:
        assert part.fields.keys() <= set(NATIVE)
        deepest = [inner for value in part.fields.values() if isinstance(value, list) for inner in value]
        assert not any(isinstance(inner, list | dict) for inner in deepest)
    if part.key is not None:
        part.key.encode()
        assert part.fields["id"] == part.key
    with suppress(RejectedError):
        record = from_fields(part.fields, EXPECTED, "fuzz:0:0", ARRIVAL)
        f"{record.id}{record.text}{record.pair}{record.slice}".encode()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_no_message_breaks_a_format(form: Format) -> None:
    """Whatever comes, a format gives parts that can be used or refused, or one reason, and changes nothing."""

    def check(message: Message) -> None:
        for payload in payloads_of(message):
            parts = parts_of(form, payload, message)
            keys = [part.key for part in parts if part.key is not None]
            assert len(set(keys)) == len(keys)
            for part in parts:
                check_part(part)

    fuzz(check, messages(form.name))


def test_no_message_breaks_the_envelope() -> None:
    """Whatever comes, an envelope gives payloads and reasons, and its texts are texts."""

    def check(message: Message) -> None:
        for payload in payloads_of(message):
            assert all(isinstance(text, str | None) for text in (payload.id, payload.time, payload.identity))
            assert payload.kind in {None, Kind.REQUEST, Kind.RESPONSE}
            assert (payload.identity is None) == (payload.id is None)

    fuzz(check, st.one_of([messages(form.name) for form in FORMS]))


def test_no_path_breaks_the_mapping() -> None:
    """A path is compiled or refused with a ValueError, and then finds something or nothing in any JSON."""
    pieces = st.sampled_from(
        ["$", ".", "text", "[0]", "[-1]", '["a"]', "[", "]", '"', "\\", "é", "0", " ", "*", "\n"]
    )
    paths = st.lists(pieces | st.text(max_size=3), max_size=8).map("".join)

    def check(path: str, content: object) -> None:
        try:
            steps = compiled(path)
        except ValueError:
            return
        found(content, steps)

    fuzz(check, paths, JSON)

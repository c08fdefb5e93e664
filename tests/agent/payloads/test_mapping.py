"""The field mapping and its paths."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import UsageError
from agent.payloads.contract import Kind, Part, Payload
from agent.payloads.formats import format_of
from agent.payloads.mapping import decoder
from agent.payloads.paths import compiled, found
from agent.source_config import PayloadConfig

LABELS = ("negative", "positive")


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("text", ("text",)),
        ("$", None),
        ("", None),
        ("$.a.b", ("a", "b")),
        ("$a", None),
        ("a-b.c_d", ("a-b", "c_d")),
        ("été.ß", ("été", "ß")),
        ("a[0][-1].b", ("a", 0, -1, "b")),
        ("[0]", (0,)),
        ('["a.b[0]"].c', ("a.b[0]", "c")),
        ('["say \\"hi\\" \\u00e9"]', ('say "hi" é',)),
        ("a..b", None),
        (".a", None),
        ("a.", None),
        ("a[", None),
        ("a[x]", None),
        ("a[1", None),
        ("a[1]b", None),
        ("a[*]", None),
        ("a[?(@.b)]", None),
        ('["a]', None),
        ('["\\x"]', None),
        ("a b", None),
        ("0a", None),
        ("[99999999999]", None),
    ],
)
def test_paths_are_compiled_or_refused(path: str, steps: tuple[str | int, ...] | None) -> None:
    """Names, indices and quoted keys are all there is."""
    if steps is None:
        with pytest.raises(ValueError, match=r".+"):
            compiled(path)
    else:
        assert compiled(path) == steps


@given(st.lists(st.text() | st.integers(-(10**8), 10**8), min_size=1))
def test_every_key_can_be_written(steps: list[str | int]) -> None:
    """Any key at all has a path: quoted as JSON."""
    path = "$" + "".join(f"[{json.dumps(step)}]" for step in steps)
    assert compiled(path) == tuple(steps)


@pytest.mark.parametrize("path", ["a.b", "a[5]", "a[-5]", "b[0].c", "c.d", "e"])
def test_what_is_not_there_is_nothing(path: str) -> None:
    """A path that leads nowhere gives None, whatever is in its way."""
    assert found({"a": [1], "b": [None], "c": "d"}, compiled(path)) is None


def test_only_fields_that_are_there_are_set() -> None:
    """A value that is missing or null is as if it had not been configured."""
    decode = decoder({"text": "q", "slice": "who.tenant", "id": "meta.id"})
    (part,) = decode(Payload({"q": "a", "meta": {"id": None}}, id="7", time="t"), LABELS)
    assert part == Part(Kind.RECORD, {"text": "a", "id": "7", "time": "t"})


def test_classes_may_be_indices() -> None:
    """Predictions and labels may come by number."""
    decode = decoder({"text": "q", "prediction": "p", "label": "y"})
    (part,) = decode(Payload({"q": "a", "p": 1, "y": "LABEL_0"}), LABELS)
    assert part.fields == {"text": "a", "prediction": "positive", "label": "negative"}


def test_labels_can_be_mapped_too() -> None:
    """A topic of labels needs no text."""
    (part,) = decoder({"id": "ref", "label": "truth"})(Payload({"ref": "7", "truth": "negative"}), LABELS)
    assert part == Part(Kind.LABEL, {"id": "7", "label": "negative"})


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"text": "a..b"}, r"mapping\.text: the path 'a\.\.b' cannot be read from character 2 on: '\.\.b'"),
        ({"text": ""}, r"mapping\.text: the path '' is empty"),
        ({"text": "a", "tenant": "b"}, r"mapping\.tenant: is no field of a record\. Fields are id, time"),
        ({"id": "a"}, r"mapping: has no `text`"),
        ({}, r"mapping: has no `text`"),
    ],
)
def test_a_wrong_mapping_is_named(mapping: dict[str, str], words: str) -> None:
    """The error says which field and which path, before any message is read."""
    with pytest.raises(UsageError, match=words):
        format_of(PayloadConfig(format="mapping", mapping=mapping))

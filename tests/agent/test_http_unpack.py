"""Unpacking and splitting, for any content however it is cut."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.http.answers import RefusedError
from agent.sources.http.inbox import Delivery
from agent.sources.http.split import messages
from agent.sources.http.unpack import MOST_MEMBERS, STEP, unpacker

MOST = 1 << 17
CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda piece, times: piece * times, st.binary(min_size=1, max_size=9), st.integers(0, 30_000)),
)


def packed_by(encoding: str, parts: list[bytes]) -> bytes:
    """The parts as one body: gzip has a member for each."""
    if encoding == "gzip":
        return b"".join(gzip.compress(part) for part in parts)
    return zlib.compress(b"".join(parts), wbits=15 if encoding == "deflate" else -15)


def cut(body: bytes, places: list[int]) -> list[bytes]:
    """The body in pieces."""
    edges = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[start:end] for start, end in pairwise(edges)]


def unpacked(encoding: str, pieces: list[bytes], most: int) -> tuple[int, bytes, list[int]]:
    """The status it ends with, the content until then, and the sizes it came in."""
    content: list[bytes] = []
    unpack = unpacker("deflate" if encoding == "raw" else encoding, most)
    status = 200
    try:
        for piece in pieces:
            content += unpack.feed(piece)
        unpack.end()
    except RefusedError as refused:
        status = refused.answer.status
    return status, b"".join(content), [len(each) for each in content]


@given(
    st.sampled_from(["gzip", "deflate", "raw"]),
    st.lists(CONTENTS, min_size=1, max_size=4),
    st.lists(st.integers(0, 10_000), max_size=6),
)
def test_what_fits_comes_out_whole_and_what_does_not_is_cut(
    encoding: str, parts: list[bytes], places: list[int]
) -> None:
    """However it is packed and cut: the content if it is small enough, 413 and never more than the cap if not."""
    expected = b"".join(parts)
    status, content, sizes = unpacked(encoding, cut(packed_by(encoding, parts), places), MOST)
    assert max(sizes, default=0) <= STEP
    if len(expected) <= MOST:
        assert (status, content) == (200, expected)
    else:
        assert status == 413
        assert len(content) <= MOST
        assert expected.startswith(content)


@given(st.sampled_from(["gzip", "deflate", "raw"]), st.binary(max_size=200), st.integers(1, 20), st.booleans())
def test_damage_is_never_taken_for_content(encoding: str, content: bytes, size: int, longer: bool) -> None:  # noqa: FBT001
    """A body that is cut short, or goes on after its end, is refused as broken."""
    whole = packed_by(encoding, [content])
    damaged = whole + b"\x01" * size if longer else whole[: max(0, len(whole) - size)]
    status, _, _ = unpacked(encoding, [damaged], MOST)
    assert status == 400


@given(st.sampled_from(["gzip", "deflate", "raw"]), st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_are_unpacked_or_refused(encoding: str, pieces: list[bytes]) -> None:
    """Nothing else comes of them."""
    assert unpacked(encoding, pieces, MOST)[0] in {200, 400, 413}


def test_thousands_of_members_are_refused() -> None:
    """Empty members cost time and bring nothing."""
    member = gzip.compress(b"")
    assert unpacked("gzip", [member * MOST_MEMBERS], MOST)[0] == 200
    assert unpacked("gzip", [member * (MOST_MEMBERS + 1)], MOST)[0] == 400


def test_exactly_the_cap_is_allowed() -> None:
    """One byte more is not."""
    assert unpacked("gzip", [gzip.compress(bytes(MOST))], MOST)[:1] == (200,)
    assert unpacked("gzip", [gzip.compress(bytes(MOST + 1))], MOST)[:1] == (413,)


def split(body: bytes, *, native: bool = True, channel: str = "/", **headers: str) -> list[bytes | None]:
    """The bodies of the messages in a request."""
    named = tuple((name.replace("_", "-"), value.encode()) for name, value in headers.items())
    delivery = Delivery(body, channel, named, 0.0, len(body))
    found = list(messages(delivery, "http:run:1", native=native))
    assert len({message.origin for message in found}) == len(found)
    return [message.body for message in found]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=6), st.sampled_from([None, 1]))
def test_every_element_of_an_array_is_a_message(values: list[object], indent: int | None) -> None:
    """As it was written, whatever it is, with and without escapes."""
    for escaped in (True, False):
        body = json.dumps(values, indent=indent, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
        if b"\xed\xa0" not in body:
            assert repr([json.loads(each or b"") for each in split(body)]) == repr(values)


@given(st.binary(max_size=80), st.sampled_from(["application/json", "application/cloudevents-batch+json", "x"]))
def test_any_bytes_are_split_or_left_whole(noise: bytes, media: str) -> None:
    """Nothing is invented: each message is part of the body."""
    for body in (noise, b"[" + noise, b'[{"a": 1},' + noise):
        assert all(each is not None and each in body for each in split(body, content_type=media))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[]", []),
        (b" [ ] ", []),
        (b"[1, oops, 2]", [b"1", b"oops, 2]"]),
        (b'[{"a":1},]', [b'{"a":1}', b"]"]),
        (b'[{"a":1}', [b'{"a":1}', b""]),
        (b'[{"a":1},', [b'{"a":1}', b""]),
        (b'[{"a":1}] more', [b'{"a":1}', b"more"]),
        (b'[{"a":1} {"b":2}]', [b'{"a":1}', b'{"b":2}]']),
        (b"[" + b"9" * 5000 + b", 1]", [b"9" * 5000, b"1"]),
        (b"\xef\xbb\xbf[1]", [b"1"]),
        (b"[\xff]", [b"[\xff]"]),
    ],
)
def test_a_broken_array_loses_only_what_is_broken(body: bytes, expected: list[bytes]) -> None:
    """The elements before the damage are messages, and so is the rest, which the format will reject."""
    assert split(body) == expected


def test_deep_nesting_ends_nothing() -> None:
    """An array deeper than Python's stack is one message."""
    body = b"[" * 100_000
    assert split(body) == [b"[" * 99_999]


def test_a_binary_event_is_left_whole() -> None:
    """Its attributes name one event, whatever its data are."""
    for media in ("application/json", "application/x-ndjson", "application/cloudevents-batch+json"):
        assert split(b"[1, 2]", content_type=media, ce_id="1") == [b"[1, 2]"]


def test_an_array_is_taken_apart_one_at_a_time() -> None:
    """The first message of a great array is there before the last is looked for."""
    delivery = Delivery(b"[" + b"1," * 500_000 + b"1]", "/", (), 0.0, 0)
    found = messages(delivery, "http:run:1", native=True)
    assert next(found).body == b"1"

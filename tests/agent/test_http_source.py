"""The HTTP intake over real sockets: what is taken in, what is refused, and how it stops."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from agent.errors import ServiceError, UsageError
from agent.source_config import HttpSourceConfig
from agent.sources.http import HttpSource, exposed, reach
from agent.sources.http.answers import STATUSES
from tests.agent.http_bench import ARRIVAL, NATIVE, Recorder, ask, listening, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.agent.http_bench import Bench

KSERVE = {
    "ce_specversion": "1.0",
    "ce_type": "org.kubeflow.serving.inference.request",
    "ce_id": "0009174a-24a8-4603-b098-09c8799950e9",
    "ce_source": "http://localhost:9081/",
    "ce_time": "2026-08-21T10:00:00.123456789Z",
    "ce_inferenceservicename": "sentiment",
    "ce_namespace": "default",
    "ce_component": "predictor",
    "ce_endpoint": "",
    "content_type": "application/json",
}


@pytest.fixture
def bench() -> Iterator[Bench]:
    """An intake of native records on localhost."""
    with listening() as bench:
        yield bench


@pytest.fixture(scope="module")
def strict() -> Iterator[Bench]:
    """An intake that takes only small bodies."""
    with listening(most_bytes=1024, most_decompressed=2048) as bench:
        assert bench.source.status().responses == {str(status): 0 for status in STATUSES}
        yield bench


def test_a_record_is_answered_before_it_is_read(bench: Bench) -> None:
    """200 with an empty body at once; the message then says where and when it came."""
    answer = bench.post()
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")
    assert bench.read() == [NATIVE]
    (message,) = bench.recorder.messages
    assert (message.origin, message.channel, message.arrival) == ("http:run:1", "/", ARRIVAL)


def test_kserves_event_arrives_whole() -> None:
    """What KServe's logger sends keeps its body and every attribute."""
    with listening(format="kserve") as bench:
        body = b'{"instances":["great film","awful"]}'
        answer = bench.post(body, **KSERVE)
        assert (answer.status, answer.body) == (200, b"")
        assert bench.read() == [body]
        (message,) = bench.recorder.messages
        assert message.header("ce-id") == b"0009174a-24a8-4603-b098-09c8799950e9"
        assert message.header("ce-endpoint") == b""
        assert {name for name, _ in message.headers} == {name.replace("_", "-") for name in KSERVE}


def test_secrets_of_the_sender_are_not_kept(bench: Bench) -> None:
    """A message, which may become a dead letter, carries no header that lets someone in."""
    bench.post(authorization="Bearer x", cookie="a=b", x_api_key="k", x_request_id="7", content_type="text/plain")
    bench.post(b'{"specversion": "1.0"}', authorization="Bearer x", content_type="application/cloudevents+json")
    bench.read_all()
    kept = [dict(message.headers) for message in bench.recorder.messages]
    assert kept[0] == {"content-type": b"text/plain", "x-request-id": b"7"}
    assert kept[1] == {"content-type": b"application/cloudevents+json"}


def test_a_batch_of_events_becomes_events(bench: Bench) -> None:
    """Each event of a CloudEvents batch is a message of its own, in structured mode."""
    events = [{"specversion": "1.0", "id": str(number), "data": {"text": "x"}} for number in range(3)]
    body = json.dumps(events).encode()
    assert bench.post(body, content_type="application/cloudevents-batch+json; charset=utf-8").status == 200
    assert [json.loads(body or b"") for body in bench.read_all()] == events
    for place, message in enumerate(bench.recorder.messages):
        assert message.header("content-type") == b"application/cloudevents+json"
        assert message.origin == f"http:run:1.{place}"


@pytest.mark.parametrize("media", ["application/x-ndjson", "application/jsonl"])
def test_lines_are_messages(media: str) -> None:
    """JSON Lines bring a message a line, whatever the format; blank lines bring none."""
    with listening(format="bentoml") as bench:
        assert bench.post(b'{"a": 1}\r\n\n  \n{"b": 2}', content_type=media).status == 200
        assert bench.read_all() == [b'{"a": 1}', b'{"b": 2}']


def test_an_array_of_native_records_is_taken_apart(bench: Bench) -> None:
    """Each element of an array is a message, as it was written."""
    bench.post(b' [ {"text":"a"} ,\n{"text": "b\xc3\xa9"}] ')
    assert bench.read_all() == [b'{"text":"a"}', b'{"text": "b\xc3\xa9"}']


def test_an_array_of_another_format_is_left_whole() -> None:
    """Only that format knows what its arrays mean; labels are native all the same."""
    with listening(format="huggingface") as bench:
        bench.post(b'[{"label": "a"}, {"label": "b"}]')
        bench.post(b'[{"id": "1", "label": "a"}, {"id": "2", "label": "b"}]', "/labels")
        assert bench.read_all() == [
            b'[{"label": "a"}, {"label": "b"}]',
            b'{"id": "1", "label": "a"}',
            b'{"id": "2", "label": "b"}',
        ]
        assert [message.channel for message in bench.recorder.messages] == ["/", "/labels", "/labels"]


def test_a_large_request_is_read_a_batch_at_a_time() -> None:
    """A request of many records fills all batches but the first; its bytes are free once the last is read."""
    with listening(size=4) as bench:
        bench.post(b"[" + b",".join([NATIVE] * 10) + b"]")
        bench.post()
        assert bench.source.status().queue_bytes > 10 * len(NATIVE)
        assert bench.read_all() == [NATIVE] * 11
        assert bench.recorder.sizes[:4] == [1, 4, 4, 2]
        assert bench.source.status().queue_bytes == 0


def test_a_batch_is_bounded_in_bytes() -> None:
    """A batch of large messages ends with the one that passes 4 MiB."""
    with listening(most_bytes=3 << 20) as bench:
        for _ in range(4):
            bench.post(bytes(3 << 20))
        assert [len(bench.read()) for _ in range(3)] == [1, 2, 1]


def test_silence_is_an_empty_batch(bench: Bench) -> None:
    """A read without a sender returns soon; positions are always empty, and committing them is taken note of."""
    batch = bench.source.read()
    assert (batch.positions, batch.ended, batch.records) == ({}, False, ())
    assert bench.source.commit({}) is True


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(NATIVE)),
        ("X-Gzip", gzip.compress(NATIVE[:9]) + gzip.compress(NATIVE[9:])),
        ("deflate", zlib.compress(NATIVE)),
        ("deflate", zlib.compress(NATIVE, wbits=-15)),
        ("identity", NATIVE),
    ],
)
def test_compressed_bodies_are_unpacked(bench: Bench, encoding: str, packed: bytes) -> None:
    """gzip of one or more members, deflate with and without its header, and identity."""
    assert bench.post(packed, content_encoding=encoding).status == 200
    assert bench.read() == [NATIVE]


def test_a_chunked_body_is_read(bench: Bench) -> None:
    """A body that does not say its length comes in as well, on a connection that stays."""
    connection = bench.connect()
    for _ in range(2):
        assert ask(connection, iter([NATIVE[:5], NATIVE[5:]])).status == 200
    connection.close()
    assert bench.read_all() == [NATIVE, NATIVE]


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"path": "/metrics"}, 404, b"/labels"),
        ({"path": "/labels/"}, 404, b"/labels"),
        ({"method": "GET", "body": None}, 405, b"POST"),
        ({"method": "PUT", "path": "/labels"}, 405, b"POST"),
        ({"content_encoding": "br"}, 415, b"gzip"),
        ({"content_encoding": "gzip, gzip"}, 415, b"gzip"),
        ({"content_encoding": "gzip"}, 400, b"unpacked"),
        ({"body": gzip.compress(NATIVE)[:-1], "content_encoding": "gzip"}, 400, b"cut short"),
        ({"body": gzip.compress(NATIVE) + b"x", "content_encoding": "gzip"}, 400, b"damaged"),
        ({"body": zlib.compress(NATIVE) * 2, "content_encoding": "deflate"}, 400, b"damaged"),
        ({"body": b"\x78", "content_encoding": "deflate"}, 400, b"cut short"),
        ({"body": b""}, 400, b"no body"),
        ({"body": bytes(1025)}, 413, b"1,024 bytes"),
        ({"body": iter([bytes(1000)] * 2)}, 413, b"1,024 bytes"),
        ({"body": gzip.compress(bytes(2049)), "content_encoding": "gzip"}, 413, b"most_decompressed"),
    ],
)
def test_what_cannot_be_taken_in_is_told(
    strict: Bench, request_: dict[str, object], status: int, words: bytes
) -> None:
    """A status, a line of plain words, a count; the next request is welcome."""
    before = strict.source.status().responses
    connection = strict.connect()
    answer = ask(connection, **request_)  # type: ignore[arg-type]
    assert (answer.status, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert words in answer.body
    assert answer.body.endswith(b".\n")
    assert ask(connection).status == 200
    connection.close()
    assert strict.read_all() == [NATIVE]
    after = strict.source.status().responses
    assert {each for each in after if after[each] > before[each]} == {str(status), "200"}


def test_an_event_without_data_is_taken_in(bench: Bench) -> None:
    """A CloudEvent may be all headers: what to make of it is for the format to say."""
    assert bench.post(b"", ce_specversion="1.0", ce_id="1").status == 200
    assert bench.read() == [b""]


def test_head_is_answered_without_words(bench: Bench) -> None:
    """As HTTP asks; the connection stays usable."""
    connection = bench.connect()
    head = ask(connection, None, method="HEAD")
    assert (head.status, head.body) == (405, b"")
    assert ask(connection).status == 200
    connection.close()


def test_a_query_is_harmless(bench: Bench) -> None:
    """KServe is given a URL that may have a query."""
    assert bench.post(path="/?broker=default").status == 200


def test_a_full_queue_is_told_until_there_is_room() -> None:
    """503 with Retry-After once the bytes are used up; what was answered 200 is all there; then there is room."""
    with listening(most_bytes=30_000, most_decompressed=30_000, queue_bytes=1 << 16) as bench:
        body = bytes(20_000)
        answers = [bench.post(body) for _ in range(5)]
        assert [answer.status for answer in answers] == [200, 200, 200, 503, 503]
        assert answers[-1].headers["retry-after"] == "1"
        assert bench.source.status().queue_bytes <= 1 << 16
        assert bench.read_all() == [body] * 3
        assert bench.post(body).status == 200
        assert (bench.count(200), bench.count(503)) == (4, 2)


def test_a_flood_of_tiny_requests_is_bounded_too() -> None:
    """Each request costs its overhead, so that the number that wait is bounded."""
    with listening(most_bytes=1024, most_decompressed=1024, queue_bytes=1 << 16) as bench:
        connection = bench.connect()
        statuses = [ask(connection, b"1").status for _ in range(100)]
        connection.close()
        assert statuses.count(200) == 63
        assert set(statuses[63:]) == {503}


def test_requests_beyond_the_concurrency_are_told_to_wait() -> None:
    """429 while so many are arriving; once one is done, the next may come."""
    with listening(concurrency=2) as bench:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 27\r\n\r\n"
        slow = [bench.raw(head + NATIVE[:9]) for _ in range(2)]
        until(lambda: bench.source.status().queue_bytes > 2 * 1024)
        answer = bench.post()
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        slow[0].sendall(NATIVE[9:])
        assert slow[0].recv(12) == b"HTTP/1.1 200"
        assert bench.post().status == 200
        for sender in slow:
            sender.close()
        until(lambda: bench.source.status().events["sender_gone"] == 1)
        assert bench.read_all() == [NATIVE] * 2
        assert bench.source.status().queue_bytes == 0


def test_a_server_that_died_is_told(bench: Bench) -> None:
    """Should its thread ever end by itself, the source says that only a restart mends it."""
    assert not bench.source.status().stuck
    bench.source._listener.finish()
    until(lambda: bench.source.status().stuck)


def test_nothing_is_answered_before_the_state_is_there() -> None:
    """Until `seek` connections wait; closing before it frees the port."""
    recorder = Recorder()
    source = HttpSource(HttpSourceConfig(port=0), recorder, 8)
    assert source.status().assigned
    source.close()
    again = HttpSource(HttpSourceConfig(port=source.address.port), recorder, 8)
    assert again.address == source.address
    again.close()


def test_origins_of_two_runs_differ() -> None:
    """A record without an id is named after its origin, which must not come again after a restart."""
    origins = []
    for _ in range(2):
        recorder = Recorder()
        source = HttpSource(HttpSourceConfig(port=0), recorder, 8)
        source.seek({})
        source.seek({})  # as after a loss: nothing to go back to
        try:
            with listening() as other:
                other.post()
            connection = type(other)(source, recorder).post()
            assert connection.status == 200
            source.read()
        finally:
            source.close()
        origins.append(recorder.messages[0].origin)
    assert origins[0] != origins[1]


def test_a_port_in_use_is_a_plain_error(bench: Bench) -> None:
    """The source and the check say the same, with the address and the reason."""
    config = HttpSourceConfig(port=bench.source.address.port)
    for attempt in (lambda: HttpSource(config, Recorder(), 8), lambda: reach(config)):
        with pytest.raises(ServiceError) as caught:
            attempt()
        expected = f"cannot serve the HTTP intake on 127.0.0.1:{config.port}: the port is already in use"
        assert str(caught.value) == expected


def test_a_check_says_what_it_found(tmp_path: Path) -> None:
    """The port, the tokens and where events go on to; no secret among them."""
    token = tmp_path / "token"
    token.write_text("hidden\n", encoding="utf-8")
    forward = {"url": "http://user-events.svc/in"}
    config = HttpSourceConfig.model_validate({"port": 0, "token_file": token, "forward": forward})
    assert reach(config) == "any free port of 127.0.0.1, tokens: 1, passes events on to user-events.svc"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"token_file": "absent"}, "token_file: absent: cannot be read"),
        ({"tls": {"certificate": "absent", "key": "absent"}}, "absent and absent cannot be used: No such file"),
        ({"tls": {"ca": "absent"}}, "`certificate` and `key` are missing"),
        ({"forward": {"url": "http://sink/#secret"}}, "without user or fragment"),
        ({"forward": {"url": "http://sink:99999/"}}, "the port is at most 65535"),
        ({"forward": {"url": "http://me:secret/"}}, "expected http(s)://host"),
        ({"forward": {"url": "http://[me:secret/"}}, "expected http(s)://host"),
        ({"forward": {"url": "http://me:secret\uff20sink/"}}, "expected http(s)://host"),
        ({"forward": {"url": "http://"}}, "expected http(s)://host"),
        ({"forward": {"url": "http://sink/a b"}}, "percent-encoded"),
        ({"forward": {"url": "https://sink/", "tls": {"ca": "absent"}}}, "forward.tls.ca: absent cannot be used"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], words: str) -> None:
    """The check and the source refuse it alike, before anything is taken in, without showing a secret."""
    config = HttpSourceConfig.model_validate({"port": 0} | settings)
    for attempt in (lambda: HttpSource(config, Recorder(), 8), lambda: reach(config)):
        with pytest.raises(UsageError) as caught:
            attempt()
        assert words in str(caught.value)
        assert "secret" not in str(caught.value)


def test_a_url_with_a_password_is_refused() -> None:
    """Whatever letters the password holds; the file's own error shows nothing of it."""
    for url in ("http://me:secret@sink/", "https://me@sink", "http://me:sec/ret@sink/", "http://me:[secret@sink/"):
        with pytest.raises(ValidationError, match="no user or password goes into `url`") as caught:
            HttpSourceConfig.model_validate({"forward": {"url": url}})
        (found,) = caught.value.errors()
        assert found["loc"] == ("forward",)
        assert "sec" not in found["msg"].replace("secrets", "")


def test_a_queue_that_no_request_fits_in_is_refused() -> None:
    """A body that is allowed must be able to get in."""
    with pytest.raises(ValidationError, match="queue_bytes must hold the largest request"):
        HttpSourceConfig(most_bytes=1 << 20, queue_bytes=1 << 20)


@pytest.mark.parametrize(
    ("settings", "risks"),
    [
        ({}, []),
        ({"host": "::1"}, []),
        ({"host": "localhost"}, []),
        ({"host": "0.0.0.0"}, ["can post", "in the clear"]),  # noqa: S104 - what is warned of
        ({"host": "example", "token_file": "t"}, ["in the clear"]),
        ({"host": "::", "tls": {"certificate": "c", "key": "k"}}, ["can post"]),
        ({"host": "10.0.0.1", "tls": {"certificate": "c", "key": "k", "ca": "a"}}, []),
    ],
)
def test_open_doors_are_warned_of(settings: dict[str, object], risks: list[str]) -> None:
    """Whoever listens to other machines is told what is missing; on localhost nothing is."""
    warnings = exposed(HttpSourceConfig.model_validate(settings))
    assert len(warnings) == len(risks)
    assert all(risk in warning for risk, warning in zip(risks, warnings, strict=True))

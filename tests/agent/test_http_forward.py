"""Events passed on to a second sink: a real one that is well, slow, broken, gone, or sends elsewhere."""

from __future__ import annotations

import gzip
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from agent.source_config import ForwardConfig
from agent.sources.http import forward
from agent.sources.http.forward import Forwarder
from tests.agent.http_bench import NATIVE, listening, until
from tests.kafka_security import Security

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.agent.http_bench import Bench


@dataclass
class Sink:
    """A server that remembers what it was sent; it answers the given statuses in turn, the last for ever."""

    statuses: list[int] = field(default_factory=lambda: [200])
    answer: bytes = b""
    location: str = ""
    gate: threading.Event = field(default_factory=threading.Event)
    taken: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(sink: Sink) -> Iterator[Sink]:
    """The sink on a port of its own; it answers once its gate is open."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.taken.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            sink.gate.wait(10)
            self.send_response(sink.statuses.pop(0) if len(sink.statuses) > 1 else sink.statuses[0])
            self.send_header("Content-Length", str(len(sink.answer)))
            if sink.location:
                self.send_header("Location", sink.location)
            self.end_headers()
            self.wfile.write(sink.answer)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # it was cut off, as some tests want
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sink.url = f"http://127.0.0.1:{server.server_port}/in?x=1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield sink
    finally:
        sink.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A sink that is well."""
    sink = Sink()
    sink.gate.set()
    with serving(sink) as served:
        yield served


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "PAUSE", 0.005)
    monkeypatch.setattr(forward, "LAST_CALL", 0.2)


def settled(bench: Bench, total: int) -> dict[str, int]:
    """What became of the events, once so many are done with."""
    until(lambda: sum(bench.source.status().forwarded.values()) == total)
    return dict(bench.source.status().forwarded)


def test_an_event_is_passed_on_as_it_came(sink: Sink) -> None:
    """Body, content type, encoding and the event's attributes go along; what let the sender in does not."""
    packed = gzip.compress(NATIVE)
    with listening(forward={"url": sink.url}) as bench:
        bench.post(
            packed,
            content_encoding="gzip",
            content_type="application/json",
            ce_id="7",
            ce_specversion="1.0",
            x_request_id="r",
            authorization="Bearer secret",
            cookie="a=b",
        )
        assert settled(bench, 1) == {"sent": 1, "dropped": 0, "failed": 0}
        assert bench.read_all() == [NATIVE]
    ((path, headers, body),) = sink.taken
    assert (path, body) == ("/in?x=1", packed)
    passed = {name: headers[name] for name in headers if name not in {"host", "content-length", "accept-encoding"}}
    assert passed == {
        "content-encoding": "gzip",
        "content-type": "application/json",
        "ce-id": "7",
        "ce-specversion": "1.0",
        "x-request-id": "r",
    }


def test_labels_and_what_is_refused_stay_here(sink: Sink) -> None:
    """Only events that were taken in are passed on."""
    with listening(forward={"url": sink.url}, most_bytes=1024) as bench:
        bench.post(path="/labels")
        bench.post(bytes(2000))
        bench.post(b"1")
        settled(bench, 1)
    assert [body for _, _, body in sink.taken] == [b"1"]


def test_a_hiccup_is_tried_again(sink: Sink) -> None:
    """500, 503 and 429 are followed by another attempt, which is the same."""
    sink.statuses = [500, 503, 429, 202]
    with listening(forward={"url": sink.url}) as bench:
        bench.post()
        assert settled(bench, 1)["sent"] == 1
    assert [body for _, _, body in sink.taken] == [NATIVE] * 4


@pytest.mark.parametrize(("status", "attempts"), [(500, 4), (400, 1), (401, 1), (413, 1)])
def test_an_event_that_cannot_be_passed_on_is_counted(sink: Sink, status: int, attempts: int) -> None:
    """After a few attempts, or one where another would not help; the intake does not notice."""
    sink.statuses = [status]
    with listening(forward={"url": sink.url}) as bench:
        assert bench.post().status == 200
        assert settled(bench, 1)["failed"] == 1
        assert bench.read_all() == [NATIVE]
    assert len(sink.taken) == attempts


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(sink: Sink, status: int) -> None:
    """Events go where the configuration says, and nowhere else."""
    other = Sink()
    other.gate.set()
    with serving(other):
        sink.statuses, sink.location = [status], other.url
        with listening(forward={"url": sink.url}) as bench:
            bench.post()
            assert settled(bench, 1)["failed"] == 1
    assert (len(sink.taken), other.taken) == (1, [])


def test_the_environments_proxy_is_not_used(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy variable does not send events elsewhere."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with listening(forward={"url": sink.url}) as bench:
        bench.post()
        assert settled(bench, 1)["sent"] == 1


def test_a_sink_that_is_not_there_is_counted() -> None:
    """A refused connection is tried again, then given up; the intake does not notice."""
    with listening() as other:
        nobody = other.source.address.port
    with listening(forward={"url": f"http://127.0.0.1:{nobody}/"}) as bench:
        assert bench.post().status == 200
        assert settled(bench, 1)["failed"] == 1


def test_a_sink_that_says_too_much_is_not_listened_to(sink: Sink) -> None:
    """A long answer costs the connection, and nothing else."""
    sink.answer = bytes(1 << 20)
    with listening(forward={"url": sink.url}) as bench:
        for _ in range(3):
            bench.post()
        assert settled(bench, 3)["sent"] == 3


def test_a_slow_sink_costs_the_oldest_events() -> None:
    """While it hangs, the queue holds what it may and drops the oldest, counted; the intake answers at once."""
    hanging = Sink()
    with serving(hanging), listening(forward={"url": hanging.url, "queue_bytes": 1 << 16, "timeout": 10}) as bench:
        bodies = [b"%04d" % number * 5000 for number in range(12)]
        for body in bodies[:4]:
            bench.post(body)
        until(lambda: len(hanging.taken) == forward.CONNECTIONS)
        begun = time.monotonic()
        for body in bodies[4:]:
            assert bench.post(body).status == 200
        assert time.monotonic() - begun < 2
        assert bench.source.status().forwarded == {"sent": 0, "dropped": 5, "failed": 0}
        hanging.gate.set()
        assert settled(bench, 12) == {"sent": 7, "dropped": 5, "failed": 0}
        assert bench.read_all() == bodies
    assert {body for _, _, body in hanging.taken} == {*bodies[:4], *bodies[9:]}


def test_a_sink_that_never_answers_times_out() -> None:
    """Each attempt has its time; then the event is given up."""
    hanging = Sink()
    with serving(hanging), listening(forward={"url": hanging.url, "timeout": 0.05}) as bench:
        bench.post()
        assert settled(bench, 1)["failed"] == 1
    assert len(hanging.taken) == forward.ATTEMPTS


def test_closing_does_not_wait_for_a_sink_that_hangs() -> None:
    """What cannot be passed on any more is counted as dropped or failed, and no thread is left."""
    hanging = Sink()
    with serving(hanging):
        with listening(forward={"url": hanging.url, "timeout": 30}) as bench:
            for _ in range(6):
                bench.post()
            until(lambda: len(hanging.taken) == forward.CONNECTIONS)
            begun = time.monotonic()
        assert time.monotonic() - begun < 3
        assert bench.source.status().forwarded == {"sent": 0, "dropped": 2, "failed": 4}
        assert not [each for each in threading.enumerate() if each.name == "leadline-forward"]


def test_a_sink_may_speak_tls(tmp_path: Path) -> None:
    """One that is trusted, and asks who we are, gets the events; one that is not trusted gets nothing."""
    security = Security(tmp_path)
    security.write()
    server = {"certificate": tmp_path / "broker.pem", "key": tmp_path / "broker.key", "ca": security.ca}
    client = {"certificate": security.client_certificate, "key": security.client_key, "ca": security.ca}
    with listening(tls=server) as far:
        for trusts, outcome in ((client, "sent"), (None, "failed")):
            with listening(forward={"url": far.source.url, "tls": trusts}) as bench:
                bench.post()
                assert settled(bench, 1)[outcome] == 1
        assert far.read_all() == [NATIVE]


def test_what_is_queued_is_passed_on_before_the_end(sink: Sink) -> None:
    """A sink that is well gets everything before the agent ends."""
    with listening(forward={"url": sink.url}) as bench:
        for _ in range(20):
            bench.post()
    assert bench.source.status().forwarded == {"sent": 20, "dropped": 0, "failed": 0}


def test_pauses_between_attempts_grow_and_are_spread(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as long each time, and by the jitter between half and one and a half of that."""
    sink.statuses = [503]
    for jitter, factor in ((0.0, 0.5), (1.0, 1.5)):
        pauses: list[float] = []
        forwarder = Forwarder(ForwardConfig(url=sink.url), lambda jitter=jitter: jitter)

        def wait(seconds: Any = None, pauses: list[float] = pauses) -> bool:  # noqa: ANN401 - as Event's
            pauses.append(seconds)
            return False

        monkeypatch.setattr(forwarder._closing, "wait", wait)
        forwarder.offer(b"1", ())
        forwarder.start()
        until(lambda forwarder=forwarder: forwarder.counts["failed"] == 1)
        forwarder.close()
        assert pauses == [pytest.approx(forward.PAUSE * 2**attempt * factor) for attempt in (1, 2, 3)]

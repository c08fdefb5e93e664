"""How the HTTP intake stops, over real sockets: what is still read, what is told, and what is said to be lost."""

from __future__ import annotations

import threading
from http.client import HTTPException
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from agent.checkpoints import NoCheckpoints
from agent.loop import Clocks, Listeners, Loop
from agent.messages import NoDeadLetters
from agent.no_estimates import NoEstimates
from agent.sources.http import door
from tests.agent.http_bench import ARRIVAL, NATIVE, ask, listening, received, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agent.records import Record
    from agent.scorer import Scored
    from agent.state import State
    from tests.agent.http_bench import Bench

# A request of several messages.
LINES = (NATIVE + b"\n") * 5


@pytest.fixture
def bench() -> Iterator[Bench]:
    """An intake of native records on localhost."""
    with listening() as bench:
        yield bench


def test_what_was_promised_is_read_before_the_end(bench: Bench) -> None:
    """Told to stop, it takes nothing more in, and gives everything that was answered 200, then says it is done."""
    for _ in range(3):
        bench.post()
    half = bench.raw(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 27\r\n\r\n" + NATIVE[:9])
    until(lambda: bench.source.status().queue_bytes > 4 * 1024)
    assert bench.source.drain()
    half.sendall(NATIVE[9:])
    bodies = []
    while bench.source.drain():
        bodies += bench.read()
    assert bodies == [NATIVE] * 4
    assert received(half).startswith(b"HTTP/1.1 200")
    with pytest.raises(ConnectionRefusedError):
        bench.post()


def test_whoever_is_half_way_when_it_stops_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not end soon is answered 503, and the source is done within seconds."""
    monkeypatch.setattr(door, "LAST_CALL", 0.2)
    half = bench.raw(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 27\r\n\r\n" + NATIVE[:9])
    until(lambda: bench.source.status().queue_bytes > 1024)
    bench.source.drain()
    told = received(half)
    assert told.startswith(b"HTTP/1.1 503")
    assert b"stopping" in told
    until(lambda: not bench.source.drain())


def test_stopping_under_load_loses_nothing() -> None:
    """Senders go on while it stops: exactly what was answered 200 is read."""
    with listening() as bench:
        accepted: list[bytes] = []

        def send(sender: int) -> None:
            connection = bench.connect()
            for number in range(10_000):
                body = b'{"id": "%d-%d"}' % (sender, number)
                try:
                    if ask(connection, body).status == 200:
                        accepted.append(body)
                except (OSError, HTTPException):
                    break
            connection.close()

        senders = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for sender in senders:
            sender.start()
        until(lambda: len(accepted) > 100)
        read = bench.read()
        while bench.source.drain():
            read += bench.read()
        for sender in senders:
            sender.join()
        assert sorted(accepted) == sorted(each or b"" for each in read)
        assert bench.source.status().events["lost_at_stop"] == 0


@pytest.mark.parametrize("settings", [{}, {"drain": "45s"}])
def test_draining_has_an_end(settings: dict[str, Any]) -> None:
    """A scorer that cannot keep up does not hold up the stop: after `drain`, by default 20 s, the rest is lost.

    It is in the status at once, and told in one line, however often it is asked again.
    """
    now, drain = [0.0], 45.0 if settings else 20.0
    with capture_logs() as logs:
        with listening(size=1, monotonic=lambda: now[0], **settings) as bench:
            bodies = [b"[" + b",".join([NATIVE] * 5) + b"]", NATIVE, NATIVE]
            for body in bodies:
                bench.post(body)
            assert bench.source.drain()
            now[0] = drain
            assert bench.source.drain()
            assert bench.read() == [NATIVE]
            assert (bench.source.status().events["lost_at_stop"], logs) == (0, [])
            now[0] = drain + 0.1
            for _ in range(2):
                assert not bench.source.drain()
                assert bench.source.status().events["lost_at_stop"] == 3
            assert bench.read() == []
        assert bench.source.status().events["lost_at_stop"] == 3
    assert bench.source.status().queue_bytes == 0
    (line,) = logs
    assert (line["log_level"], line["event"]) == ("error", "lost_at_stop")
    assert (line["requests"], line["bytes"]) == (3, sum(map(len, bodies)))
    assert f"before source.http.drain ({drain:g} s) was over" in line["problem"]
    assert all(word in line["advice"] for word in ("raise source.http.drain", "encode faster", "Kafka"))


def test_nothing_is_lost_that_was_read_in_time() -> None:
    """A request whose last message was read is not lost, though the deadline has passed; nothing is said."""
    now = [0.0]
    with capture_logs() as logs, listening(size=1, monotonic=lambda: now[0]) as bench:
        bench.post(LINES, content_type="application/x-ndjson")
        assert bench.source.drain()
        while len(bench.recorder.messages) < LINES.count(b"\n"):
            bench.read()
        assert bench.source._open is not None
        now[0] = 20.1
        assert not bench.source.drain()
    assert bench.source.status().events["lost_at_stop"] == 0
    assert bench.source.status().queue_bytes == 0
    assert logs == []


def test_nothing_is_promised_after_the_deadline() -> None:
    """A request that is complete only then is answered 503, so that its sender knows, and is not lost."""
    now = [0.0]
    with listening(monotonic=lambda: now[0], drain=1) as bench:
        half = bench.raw(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 27\r\n\r\n" + NATIVE[:9])
        until(lambda: bench.source.status().queue_bytes > 1024)
        assert bench.source.drain()
        now[0] = 1.1
        assert not bench.source.drain()
        half.sendall(NATIVE[9:])
        assert received(half).startswith(b"HTTP/1.1 503")
    status = bench.source.status()
    assert (status.events["lost_at_stop"], status.queue_bytes, status.responses["200"]) == (0, 0, 0)


def test_the_last_snapshot_says_what_was_lost(new_state: Callable[..., State]) -> None:
    """Told to stop once, the loop reads for as long as it may, then publishes how many requests were left."""
    stop, reports, seconds = Event(), [], count(0, 6)
    stop.set()
    clocks = Clocks(lambda: 0.0, lambda: ARRIVAL)
    listeners = Listeners(reports.append, reports.append)
    estimates, letters = NoEstimates("no domains", clocks.epoch), NoDeadLetters()

    def score(records: Sequence[Record]) -> Scored:
        pytest.fail(f"asked to score {records}")

    with listening(size=1, monotonic=lambda: float(next(seconds))) as bench:
        for _ in range(4):
            bench.post(LINES, content_type="application/x-ndjson")
        parts = (bench.source, score, new_state(), estimates, letters, NoCheckpoints(), listeners, stop, clocks)
        Loop(*parts).run()
    assert len(bench.recorder.messages) == 4  # at 0, 6, 12 and 18 seconds
    assert [report.source.events["lost_at_stop"] for report in reports] == [0] * 4 + [4]
    assert bench.source.status().events["lost_at_stop"] == 4


def test_what_a_crash_leaves_is_said() -> None:
    """Closed without having been drained, it counts and logs what waits, and does not blame `drain`."""
    with capture_logs() as logs:
        with listening() as bench:
            bench.post()
            bench.post()
        assert bench.source.status().events["lost_at_stop"] == 2
    (line,) = logs
    assert (line["event"], line["requests"]) == ("lost_at_stop", 2)
    assert "drain" not in line["problem"] + line["advice"]


def test_closing_is_quick_whatever_is_connected(bench: Bench) -> None:
    """Idle connections and one that has said nothing do not hold it up, and no thread is left."""
    idle = bench.connect()
    ask(idle)
    silent = bench.raw(b"")
    until(lambda: len(bench.source._listener._server.server_state.connections) == 2)
    bench.source.close()
    assert not bench.source._listener.serving
    idle.close()
    silent.close()

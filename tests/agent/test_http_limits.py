"""Senders that are slow, lying, broken or hostile: what they cost, and what they are told."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import tracemalloc
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from tests.agent.http_bench import NATIVE, ask, listening, received, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agent.http_bench import Bench

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def hasty() -> Iterator[Bench]:
    """An intake that waits a quarter of a second for a request."""
    with listening(timeout=0.25) as bench:
        yield bench


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Content-Length: 27\r\n\r\n" + NATIVE[:9],
        HEAD + b"Content-Length: 27\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
        HEAD + b"X-Half-A-Hea",
        b"P",
    ],
)
def test_a_request_that_does_not_end_is_given_up(hasty: Bench, sent: bytes) -> None:
    """408 and the connection is closed, whether the body or the headers are missing; each is counted."""
    before = hasty.count(408)
    told = received(hasty.raw(sent))
    assert told.startswith(b"HTTP/1.1 408 ")
    assert told.lower().count(b"connection: close") == 1
    assert told.endswith(b"did not arrive in time.\n")
    assert hasty.count(408) == before + 1
    assert hasty.source.status().queue_bytes == 0


def test_dribbling_does_not_buy_time(hasty: Bench) -> None:
    """A byte now and then, in the headers or the body, is not progress."""
    for start, piece in ((HEAD, b"X: y\r\n"), (HEAD + b"Content-Length: 1000\r\n\r\n", b"x")):
        sender = hasty.raw(start)
        begun = time.monotonic()
        with pytest.raises(ConnectionError):
            dribble(sender, piece, until=begun + 5)
        assert time.monotonic() - begun < 2
        sender.close()


def dribble(sender: socket.socket, piece: bytes, until: float) -> None:
    """Send the piece again and again, slowly."""
    while time.monotonic() < until:
        sender.sendall(piece)
        time.sleep(0.02)


def test_silence_is_closed_without_a_word(hasty: Bench) -> None:
    """A connection on which nothing comes is not kept, and is no failed request."""
    before = hasty.source.status().responses
    assert received(hasty.raw(b"")) == b""
    assert hasty.source.status().responses == before


def test_an_idle_connection_is_kept(hasty: Bench) -> None:
    """Between two requests a sender may pause for longer than a request may take; its next headers may not."""
    connection = hasty.connect()
    for pause in (0.6, 0.0):
        assert ask(connection).status == 200
        time.sleep(pause)
    connection.sock.sendall(b"POST /")
    assert connection.sock.recv(1 << 12).startswith(b"HTTP/1.1 408 ")
    connection.close()
    assert hasty.read_all() == [NATIVE] * 2


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 3 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        HEAD + b"Content-Length: minus\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nnot a length\r\n",
        HEAD + b"X: " + b"y" * (1 << 15),
        HEAD + b"X y\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_http_is_told_and_counted(hasty: Bench, sent: bytes) -> None:
    """400, counted once, and nothing is taken in."""
    before = hasty.count(400)
    assert received(hasty.raw(sent)).startswith(b"HTTP/1.1 400 ")
    assert hasty.count(400) == before + 1
    assert hasty.read_all() == []


def test_a_length_that_is_too_large_is_refused_unread() -> None:
    """413 from the header alone, to a sender that asks first before any of the body is sent."""
    with listening() as bench:
        sender = bench.raw(HEAD + b"Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n")
        told = received(sender)
        assert told.startswith(b"HTTP/1.1 413 ")
        polite = bench.raw(HEAD + b"Content-Length: 27\r\nExpect: 100-continue\r\n\r\n")
        assert polite.recv(1 << 12) == b"HTTP/1.1 100 Continue\r\n\r\n"
        polite.sendall(NATIVE)
        assert polite.recv(1 << 12).startswith(b"HTTP/1.1 200 ")
        polite.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_costs_no_more_than_the_cap(chunked: bool) -> None:  # noqa: FBT001 - a parameter
    """100 MB are refused, told to a sender that is still sending, and never held."""
    piece = bytes(1 << 20)
    with listening() as bench:
        bench.post()
        tracemalloc.start()
        connection = bench.connect()
        pieces = iter([piece] * 100)
        length = {} if chunked else {"content_length": str(100 << 20)}
        answer = ask(connection, pieces, **length)
        connection.close()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert answer.status == 413
        assert peak < 8 << 20
        assert bench.post().status == 200
        until(lambda: bench.source.status().queue_bytes < 1 << 13)


def test_a_bomb_costs_no_more_than_the_cap() -> None:
    """100 MB of zeros in 100 kB of gzip are refused once they pass the cap, and never held."""
    bomb = gzip.compress(bytes(100 << 20))
    with listening() as bench:
        bench.post()
        tracemalloc.start()
        begun = time.monotonic()
        answer = bench.post(bomb, content_encoding="gzip")
        seconds = time.monotonic() - begun
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert answer.status == 413
        assert b"most_decompressed" in answer.body
        assert peak < 8 << 20
        assert seconds < 2
        assert bench.source.status().queue_bytes < 1 << 13


def test_bombs_all_at_once_stay_within_the_queue() -> None:
    """What is still being unpacked counts: many bombs at once are refused for room before they fill the memory."""
    bomb = gzip.compress(bytes(4 << 20))
    seen = []
    with listening(queue_bytes=6 << 20) as bench:
        over = threading.Event()

        def watch() -> None:
            while not over.is_set():
                seen.append(bench.source.status().queue_bytes)

        watcher = threading.Thread(target=watch)
        watcher.start()
        senders = [
            threading.Thread(target=bench.post, args=(bomb,), kwargs={"content_encoding": "gzip"})
            for _ in range(8)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        over.set()
        watcher.join()
        assert max(seen) <= 6 << 20
        assert (bench.count(200), bench.count(503)) == (1, 7)


def test_a_body_shorter_than_it_says_is_not_taken_in(hasty: Bench) -> None:
    """Whoever hangs up half-way is counted and leaves nothing behind."""
    before = hasty.source.status().events["sender_gone"]
    hasty.raw(HEAD + b"Content-Length: 27\r\n\r\n" + NATIVE[:20]).close()
    until(lambda: hasty.source.status().events["sender_gone"] == before + 1)
    assert hasty.source.status().queue_bytes == 0
    assert hasty.read_all() == []


def test_what_follows_the_body_is_another_request(hasty: Bench) -> None:
    """A body longer than it says ends where it says; the rest is not HTTP."""
    sender = hasty.raw(HEAD + b"Content-Length: 27\r\n\r\n" + NATIVE + b"more\r\n\r\n")
    told = received(sender)
    assert (told.count(b"HTTP/1.1 200"), told.count(b"HTTP/1.1 400")) == (1, 1)
    assert hasty.read_all() == [NATIVE]


def test_requests_in_a_row_are_all_answered(hasty: Bench) -> None:
    """Pipelined requests are taken in one after the other."""
    one = HEAD + b"Content-Length: 27\r\n\r\n" + NATIVE
    told = received(hasty.raw(one * 20 + HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\n1"))
    assert told.count(b"HTTP/1.1 200") == 21
    assert hasty.read_all() == [NATIVE] * 20 + [b"1"]


def test_whoever_takes_no_answers_is_cut_off() -> None:
    """A sender that asks on and on without reading is not kept once its answers pile up."""
    with listening(timeout=0.25) as bench:
        bench.source._listener._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        sender = socket.socket()
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender.settimeout(10)
        sender.connect(bench.source.address)
        with pytest.raises(ConnectionError):
            dribble(sender, (HEAD.replace(b"POST", b"GET") + b"\r\n") * 1000, until=time.monotonic() + 10)
        sender.close()
        until(lambda: not bench.source._listener._server.server_state.connections)
        assert bench.post().status == 200


def test_an_upgrade_is_ignored(hasty: Bench) -> None:
    """WebSocket and HTTP/2 are not spoken: the request is taken as it is, and nothing is logged."""
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 27\r\n\r\n"
    assert received(hasty.raw(HEAD + upgrade + NATIVE)).startswith(b"HTTP/1.1 200 ")
    assert hasty.read_all() == [NATIVE]


def test_connections_are_bounded() -> None:
    """Beyond the bound an idle connection makes room; where all are busy the new one is refused, and counted."""
    with listening(concurrency=1, timeout=20) as bench:
        most = 64 + 4
        kept = [bench.connect() for _ in range(most)]
        for connection in kept:
            assert ask(connection).status == 200
        assert bench.post().status == 200
        connections = bench.source._listener._server.server_state.connections
        until(lambda: len(connections) == most - 1)
        assert bench.source.status().events["connection_refused"] == 0
        for connection in kept:
            connection.close()
        until(lambda: not connections)
        busy = [bench.raw(b"POST / HT") for _ in range(most)]
        until(lambda: sum(not each.idle for each in list(connections)) == most)
        assert received(bench.raw(b"")) == b""
        assert bench.source.status().events["connection_refused"] == 1
        for sender in busy:
            sender.close()


def test_many_senders_at_once_lose_nothing() -> None:
    """Eight senders on kept connections: what was answered 200 is read, each record once."""
    with listening(concurrency=8) as bench:
        accepted: list[bytes] = []

        def send(sender: int) -> None:
            connection = HTTPConnection(*bench.source.address, timeout=10)
            for number in range(50):
                body = b'{"id": "%d-%d"}' % (sender, number)
                if ask(connection, body).status == 200:
                    accepted.append(body)
            connection.close()

        senders = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for sender in senders:
            sender.start()
        read: list[bytes | None] = []
        while any(sender.is_alive() for sender in senders):
            read += bench.read()
        read += bench.read_all()
        assert sorted(accepted) == sorted(each or b"" for each in read)
        assert len(accepted) == bench.count(200)


def test_ipv6_is_listened_on() -> None:
    """A colon in the host makes it IPv6, also in the URL."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with listening(host="::1") as bench:
        assert bench.source.url == f"http://[::1]:{bench.source.address.port}"
        assert bench.post().status == 200

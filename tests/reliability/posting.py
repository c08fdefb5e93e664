"""Senders that post to an agent's HTTP intake."""

from __future__ import annotations

import http.client
import socket
import time
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from tests.reliability.agents import wait_until
from tests.reliability.traffic import body_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.records import Record
    from tests.reliability.traffic import Traffic

HOST = "127.0.0.1"
OK = 200


def free_port() -> int:
    """A port that nobody has, most likely still so in a moment."""
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for_intake(port: int) -> None:
    """Until somebody listens there."""

    def listening() -> bool:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            return False
        return True

    wait_until(listening, 60, "the intake listens")


def post(
    port: int, body: bytes | Iterable[bytes], headers: Mapping[str, str] | None = None, path: str = "/"
) -> int:
    """The status of one answer; an iterable is sent in chunks. OSError if there is none."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        chunked = not isinstance(body, bytes)
        connection.request("POST", path, body, dict(headers or {}), encode_chunked=chunked)
        with connection.getresponse() as answer:
            answer.read()
            return answer.status
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


@dataclass
class Sent:
    """What senders know of their records: `taken` was answered 200, `refused` otherwise, `unknown` not at all."""

    taken: list[Record] = field(default_factory=list)
    refused: list[Record] = field(default_factory=list)
    unknown: list[Record] = field(default_factory=list)


class Senders:
    """So many threads that post records one by one over connections of their own, until they are stopped."""

    def __init__(self, port: int, traffic: Traffic, number: int, pause: float = 0.01) -> None:
        self._port = port
        self._traffic = traffic
        self._pause = pause
        self._lock = Lock()
        self._stop = Event()
        self.sent = Sent()
        self._threads = [Thread(target=self._run, name=f"sender {each}", daemon=True) for each in range(number)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop posting, and wait for the answers."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=30)
        while not self._stop.wait(self._pause):
            with self._lock:
                record = self._traffic.record()
            try:
                connection.request("POST", "/", body_of(record))
                answer = connection.getresponse()
                answer.read()
                outcome = self.sent.taken if answer.status == OK else self.sent.refused
            except ConnectionRefusedError:
                outcome = self.sent.refused
                connection.close()
                time.sleep(0.05)
            except (OSError, http.client.HTTPException):
                outcome = self.sent.unknown
                connection.close()
            with self._lock:
                outcome.append(record)
        connection.close()

"""The pages over a real socket."""

from __future__ import annotations

import gzip
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Event, Thread, active_count
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.errors import ServiceError
from agent.report import Counts, SourceStatus
from exporters.server import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import Message

    from agent.listener import Address
    from agent.report import Report

ROOT = Path(__file__).parents[2]
# In a process of its own, because pytest adds handlers to loggers.
SERVE_ONCE = """
import logging
from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import urlopen

from exporters.server import serving

logging.basicConfig(level=logging.DEBUG, format="agent: %(message)s")
with serving(lambda: None, "127.0.0.1", 0) as address:
    with suppress(HTTPError):
        urlopen(f"{address.url}/nothing").close()
"""
# What Prometheus 2.42 and 3 send.
ASKS_FOR_OPENMETRICS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
ASKS_FOR_UTF8 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@dataclass
class Agent:
    """What the loop would keep: its newest snapshot; and the time a probe is made."""

    report: Report
    now: float

    def latest(self) -> Report:
        """The newest snapshot."""
        return self.report

    def clock(self) -> float:
        """The time of the probe."""
        return self.now


@dataclass(frozen=True)
class Answer:
    """A response, read to its end."""

    status: int
    headers: Message
    body: bytes


@pytest.fixture
def agent(report: Report) -> Agent:
    """An agent whose loop has just moved, and that reads."""
    return Agent(replace(report, source=SourceStatus()), now=report.heartbeat)


@pytest.fixture
def address(agent: Agent) -> Iterator[Address]:
    """Where the agent's pages are served."""
    with serving(agent.latest, "127.0.0.1", 0, clock=agent.clock) as address:
        yield address


def get(address: Address, path: str, method: str = "GET", **headers: str) -> Answer:
    """The answer to one request, whatever its status."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(address.url + path, method=method, headers=named)  # noqa: S310 - our own http address
    try:
        with urlopen(request, timeout=10) as response:  # noqa: S310
            return Answer(response.status, response.headers, response.read())
    except HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


def test_plain_text_is_the_default(address: Address) -> None:
    """Without an Accept header the scrape is Prometheus text 0.0.4, and parses."""
    answer = get(address, "/metrics")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert {family.name for family in parse_text(answer.body.decode())} >= {"leadline_ready"}


@pytest.mark.parametrize("accept", [ASKS_FOR_OPENMETRICS, ASKS_FOR_UTF8])
def test_prometheus_gets_openmetrics(address: Address, accept: str) -> None:
    """What Prometheus asks for first is what it gets, labelled as such, and it parses."""
    answer = get(address, "/metrics", accept=accept)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert {family.name for family in parse_openmetrics(answer.body.decode())} >= {"leadline_ready"}


def test_an_unintelligible_accept_header_gets_plain_text(address: Address) -> None:
    """A version that is no number is ignored, not a server error."""
    answer = get(address, "/metrics", accept="text/plain; version=latest")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")


def test_gzip_only_when_asked_for(address: Address) -> None:
    """The body is compressed for a scraper that accepts gzip, and only then."""
    plain, packed = get(address, "/metrics"), get(address, "/metrics", accept_encoding="gzip")
    assert plain.headers["Content-Encoding"] is None
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.body) < len(plain.body)
    assert gzip.decompress(packed.body) == plain.body


def test_alive_while_the_heartbeat_is_young(agent: Agent, address: Address) -> None:
    """A loop that moved less than a minute ago is alive, ready or not."""
    agent.report = replace(agent.report, ready=False)
    agent.now = agent.report.heartbeat + 59.9
    answer = get(address, "/livez")
    assert (answer.status, answer.body) == (200, b"alive\n")


@pytest.mark.parametrize("age", [60.0, 3600.0])
def test_dead_once_the_heartbeat_is_stale(agent: Agent, address: Address, age: float) -> None:
    """A loop that has stood still for a minute fails the probe, with one plain line that says how long."""
    agent.now = agent.report.heartbeat + age
    answer = get(address, "/livez")
    assert answer.status == 503
    assert answer.body == f"not alive: the loop has stood still for {age:.0f} s, allowed are 60 s\n".encode()


def test_a_heartbeat_that_never_was_is_stale(agent: Agent, address: Address) -> None:
    """NaN for the heartbeat fails the probe."""
    agent.report = replace(agent.report, heartbeat=float("nan"))
    assert get(address, "/livez").status == 503


def test_the_limit_of_the_heartbeat_can_be_chosen(agent: Agent) -> None:
    """`stale_after` replaces the minute."""
    agent.now = agent.report.heartbeat + 6
    with serving(agent.latest, "127.0.0.1", 0, stale_after=5, clock=agent.clock) as address:
        assert get(address, "/livez").status == 503


def test_a_stuck_source_fails_the_probe(agent: Agent, address: Address) -> None:
    """A loop that moves without ever reading what waits is not alive, and the probe says so."""
    agent.report = replace(agent.report, source=SourceStatus(stuck=True))
    answer = get(address, "/livez")
    assert (answer.status, answer.headers.get_content_type()) == (503, "text/plain")
    assert (
        answer.body
        == b"not alive: records wait in the source and none has been read for longer than `stuck` allows\n"
    )


@pytest.mark.parametrize(
    ("source", "ready", "words"),
    [
        (SourceStatus(), False, "the agent is starting or ending"),
        (SourceStatus(assigned=False), True, "the source has given it nothing to read"),
        (SourceStatus(stopped="schema_change"), True, "reading has stopped: so many records could not be used"),
        (SourceStatus(stopped="out_of_range", assigned=False), True, "reading has stopped: what comes next"),
        (SourceStatus(stopped="unheard_of"), False, "reading has stopped: unheard_of"),
    ],
)
def test_readiness_names_what_is_missing(
    agent: Agent,
    address: Address,
    source: SourceStatus,
    ready: bool,  # noqa: FBT001 - a column of the table above
    words: str,
) -> None:
    """Ready needs a running loop, a source that has something to read, and reading that has not been stopped."""
    assert (get(address, "/readyz").status, get(address, "/readyz").body) == (200, b"ready\n")
    agent.report = replace(agent.report, source=source, ready=ready)
    answer = get(address, "/readyz")
    assert (answer.status, answer.headers.get_content_type()) == (503, "text/plain")
    assert answer.body.startswith(f"not ready: {words}".encode())
    assert answer.body.count(b"\n") == 1


@pytest.mark.parametrize("path", ["metrics", "livez", "readyz", "status.json"])
def test_the_status_page_links_the_others(address: Address, path: str) -> None:
    """Whoever opens / finds a link to each page, and the link leads there."""
    assert f'<a href="{path}">'.encode() in get(address, "/").body
    assert get(address, f"/{path}").status == 200


def test_an_unknown_path_is_not_found(address: Address) -> None:
    """404 for anything else."""
    assert get(address, "/metricz").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(address: Address, method: str) -> None:
    """405 for every other method on every page, naming those allowed."""
    for path in ("/", "/status.json", "/batches/9ac1.jsonl", "/metrics", "/livez", "/readyz"):
        answer = get(address, path, method)
        assert answer.status == 405
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


def test_head_is_get_without_the_body(address: Address) -> None:
    """HEAD tells the length of the body and sends none."""
    answer = get(address, "/metrics", "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(get(address, "/metrics").body)


def test_the_server_does_not_introduce_itself(address: Address) -> None:
    """No header tells which software serves the pages."""
    assert get(address, "/metrics").headers["Server"] is None


def events(body: bytes) -> dict[str, float]:
    """The event counts of one scrape, summed over their labels."""
    return {
        family.name: sum(sample.value for sample in family.samples)
        for family in parse_text(body.decode())
        if family.name.startswith(("leadline_events_", "leadline_dead_letters"))
    }


def test_concurrent_scrapes_are_each_consistent(agent: Agent, address: Address) -> None:
    """While the snapshot changes under four scrapers, every body balances and belongs to one snapshot."""
    over = Event()
    first = agent.report

    def publish(step: int) -> None:
        counts = Counts(
            received={"kafka": 10 * step},
            processed=3 * step,
            discarded={"late": 2 * step},
            dead_lettered={"not_json": 4 * step},
            in_flight=step,
        )
        agent.report = replace(first, counts=counts)

    def move() -> None:
        for step in count(2):
            publish(step)
            if over.is_set():
                return

    publish(1)
    mover = Thread(target=move)
    mover.start()
    try:
        with ThreadPoolExecutor(4) as scrapers:
            scrapes = list(scrapers.map(lambda _: events(get(address, "/metrics").body), range(40)))
    finally:
        over.set()
        mover.join()
    for found in scrapes:
        step = found["leadline_events_in_flight"]
        assert found["leadline_events_received"] == 10 * step
        assert found["leadline_events_processed"] == 3 * step
        assert found["leadline_events_discarded"] == 2 * step
        assert found["leadline_dead_letters"] == 4 * step
    assert len({found["leadline_events_in_flight"] for found in scrapes}) > 1


def test_a_port_in_use_is_a_plain_error(agent: Agent, address: Address) -> None:
    """A second server on the port is refused with an error that names the address and the reason."""
    with (
        pytest.raises(ServiceError) as raised,
        serving(agent.latest, address.host, address.port),
    ):
        pytest.fail("served on a port in use")
    expected = f"cannot serve metrics on 127.0.0.1:{address.port}: the port is already in use"
    assert str(raised.value) == expected


def test_an_unknown_host_is_a_plain_error(agent: Agent) -> None:
    """A host that is no address of this machine is refused with the system's reason."""
    with (
        pytest.raises(ServiceError, match=r"^cannot serve metrics on 192\.0\.2\.1:0: \S+"),
        serving(agent.latest, "192.0.2.1", 0),
    ):
        pytest.fail("served on an address of another machine")


def test_it_stops_at_once_and_frees_the_port(agent: Agent) -> None:
    """Leaving the block ends the thread within seconds, despite an idle connection, and frees the port."""
    threads = active_count()
    with serving(agent.latest, "127.0.0.1", 0, clock=agent.clock) as address:
        idle = socket.create_connection(address)
        assert get(address, "/livez").status == 200
        start = time.monotonic()
    assert time.monotonic() - start < 3
    idle.close()
    assert active_count() == threads
    with serving(agent.latest, address.host, address.port, clock=agent.clock) as again:
        assert get(again, "/livez").status == 200


def test_it_stops_even_before_it_has_started(agent: Agent) -> None:
    """A block that ends immediately leaves no thread behind."""
    threads = active_count()
    with serving(agent.latest, "127.0.0.1", 0):
        pass
    assert active_count() == threads


def test_an_error_in_the_block_passes_and_the_server_stops(agent: Agent) -> None:
    """The caller's own error comes out unchanged, after the server has stopped."""
    threads = active_count()
    with pytest.raises(KeyError), serving(agent.latest, "127.0.0.1", 0):
        raise KeyError
    assert active_count() == threads


def test_the_agents_log_stays_its_own() -> None:
    """With everything logged no request appears, and the server's own lines keep the agent's format."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE_ONCE], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert "Finished server process" in done.stderr
    assert "GET" not in done.stderr
    assert all(line.startswith("agent: ") for line in done.stderr.splitlines())


def test_the_agents_signal_handlers_stay_its_own(agent: Agent) -> None:
    """While the pages are served, SIGINT and SIGTERM are handled as before."""
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with serving(agent.latest, "127.0.0.1", 0, clock=agent.clock) as address:
        assert get(address, "/livez").status == 200
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_ipv6_is_served(agent: Agent) -> None:
    """A colon in the host makes it IPv6, also in the URL."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with serving(agent.latest, "::1", 0, clock=agent.clock) as address:
        assert get(address, "/livez").status == 200

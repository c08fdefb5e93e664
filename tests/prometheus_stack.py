"""A real Prometheus and a real Alertmanager on free ports of this machine, and a webhook to tell.

Each is started by `start` or by `with`, keeps its data and its port from one start to the next, and is killed by
the system when the test run ends. They come with Debian's packages `prometheus` and `prometheus-alertmanager`;
without them a test that makes one is skipped, or fails where services are required.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import yaml

from agent.errors import ServiceError
from tests.children import HOST, free_ports, spawn
from tests.services import program

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

READY_SECONDS = 30.0
STOP_SECONDS = 10.0
Labels = frozenset[tuple[str, str]]


class Service:
    """One of Prometheus' programs. ServiceError if it does not come up; the message shows the end of its log."""

    def __init__(self, directory: Path, command: Sequence[object], port: int) -> None:
        self.port = port
        self.log = directory / "log"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://{self.address}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it is ready."""
        if self._process is not None:
            raise ValueError(f"{self._command[0]} is already running")
        self._process = spawn(self._command, self.log)
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ServiceError(
                    f"{self._command[0]} does not come up; the end of its log:\n{self.end_of_log()}"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to end, and make it where it does not; nothing where it does not run."""
        if self._process is not None:
            self._process.terminate()
            self._ended(STOP_SECONDS)

    def kill(self) -> None:
        """End it as a power cut would; nothing where it does not run."""
        self._ended(0.0)

    def metric(self, name: str) -> float:
        """One of its own metrics without labels. OSError if it does not answer, KeyError if it has none."""
        with urlopen(f"{self.url}/metrics", timeout=10) as answer:  # noqa: S310 - always http
            lines = (line.split() for line in answer.read().decode().splitlines())
            return float(dict(line for line in lines if len(line) == 2)[name])

    def get(self, path: str, **query: str) -> Any:  # noqa: ANN401 - any JSON
        """What the API answers. OSError if it does not."""
        asked = f"?{urlencode(query)}" if query else ""
        with urlopen(f"{self.url}{path}{asked}", timeout=10) as answer:  # noqa: S310 - always http
            return json.load(answer)

    def end_of_log(self, lines: int = 50) -> str:
        """What it said last."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=5):  # noqa: S310 - always http
                return True
        except OSError:
            return False

    def _ended(self, within: float) -> None:
        if self._process is None:
            return
        deadline = time.monotonic() + within
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self._process.kill()
        self._process.wait()
        self._process = None


class Alertmanager(Service):
    """Sends what it is told to `webhook` at once, one notification for each alert name, model and slice.

    `config` replaces the whole configuration.
    """

    def __init__(self, directory: Path, webhook: str = "", config: Mapping[str, Any] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        file = directory / "alertmanager.yml"
        file.write_text(yaml.safe_dump(dict(config or notifying(webhook))), encoding="utf-8")
        command = [
            program("prometheus-alertmanager", "prometheus-alertmanager"),
            f"--config.file={file}",
            f"--storage.path={directory / 'data'}",
            f"--web.listen-address={HOST}:{port}",
            "--cluster.listen-address=",  # alone: no gossip
        ]
        super().__init__(directory, command, port)

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that it holds as active: `labels`, `annotations`, `startsAt`, `endsAt` and more."""
        found: list[dict[str, Any]] = self.get("/api/v2/alerts")
        return found

    def post(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Tell it alerts as a client would. OSError if it refuses them."""
        body = json.dumps(list(alerts)).encode()
        request = Request(f"{self.url}/api/v2/alerts", body, {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(request, timeout=10):  # noqa: S310 - always http
            pass


def notifying(webhook: str) -> dict[str, Any]:
    """A configuration that passes everything on as fast as Alertmanager can."""
    receiver: dict[str, Any] = {"name": "webhook"}
    if webhook:
        receiver["webhook_configs"] = [{"url": webhook, "send_resolved": True}]
    route = {
        "receiver": "webhook",
        "group_by": ["alertname", "model", "slice"],
        "group_wait": "1s",
        "group_interval": "1s",
        "repeat_interval": "4h",
    }
    return {"route": route, "receivers": [receiver]}


class Prometheus(Service):
    """Scrapes `targets` (`host:port`) and evaluates `rules` every second; tells `alertmanagers` (`host:port`)."""

    def __init__(
        self,
        directory: Path,
        targets: Sequence[str],
        rules: Sequence[Path] = (),
        alertmanagers: Sequence[str] = (),
        job: str = "leadline",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rule.absolute()) for rule in rules],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [*alertmanagers]}]}]},
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": [*targets]}]}],
        }
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        command = [
            program("prometheus", "prometheus"),
            f"--config.file={file}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={HOST}:{port}",
        ]
        super().__init__(directory, command, port)

    def query(self, expression: str) -> dict[Labels, float]:
        """The series that an instant query gives now, by their labels. OSError if it is no PromQL."""
        answer = self.get("/api/v1/query", query=expression)
        return {frozenset(one["metric"].items()): float(one["value"][1]) for one in answer["data"]["result"]}

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or firing: `labels`, `annotations`, `state` and more."""
        found: list[dict[str, Any]] = self.get("/api/v1/alerts")["data"]["alerts"]
        return found


@dataclass(frozen=True)
class Told:
    """One alert of one notification: `status` is `firing` or `resolved`."""

    status: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: str
    ends_at: str

    @property
    def name(self) -> str:
        """The name of the alert."""
        return self.labels["alertname"]


@dataclass
class Webhook:
    """A receiver of Alertmanager's notifications; with `with` it listens until the block ends."""

    path: str = "/page"
    _received: list[Told] = field(default_factory=list)
    _changed: Condition = field(default_factory=Condition)
    _server: ThreadingHTTPServer | None = None
    _thread: Thread | None = None

    @property
    def url(self) -> str:
        """Where notifications go."""
        assert self._server is not None, "it does not listen"
        return f"http://{HOST}:{self._server.server_port}{self.path}"

    @property
    def received(self) -> list[Told]:
        """Every alert of every notification so far, in order."""
        with self._changed:
            return list(self._received)

    def wait_for(self, reached: Callable[[list[Told]], bool], seconds: float, what: str = "") -> list[Told]:
        """What has been received, once this holds of it; AssertionError after so many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: reached(list(self._received)), seconds):
                told = [(each.status, dict(each.labels)) for each in self._received]
                raise AssertionError(f"not within {seconds:g} s: {what}; received: {told}")
            return list(self._received)

    def __enter__(self) -> Self:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                hook.take(body)

            def log_message(self, *_: object) -> None:
                """Nothing: the test says what matters."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="webhook", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, body: Mapping[str, Any]) -> None:
        """Take one notification in."""
        told = [
            Told(each["status"], each["labels"], each["annotations"], each["startsAt"], each["endsAt"])
            for each in body["alerts"]
        ]
        with self._changed:
            self._received.extend(told)
            self._changed.notify_all()

"""The HTTP pages: /metrics for Prometheus, /livez and /readyz for Kubernetes, / for whoever got lost."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder, gzip_accepted
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from exporters.probes import death, hindrance

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.registry import Collector
    from starlette.requests import Request

    from agent.report import Report

# Scrapes stay inside the cluster: beyond the lowest level, time costs more than bytes.
GZIP_LEVEL = 1
INDEX = """\
<!doctype html>
<html lang="en">
<title>Leadline</title>
<h1>Leadline</h1>
<ul>
<li><a href="metrics">metrics</a>
<li><a href="livez">livez</a>
<li><a href="readyz">readyz</a>
</ul>
</html>
"""


@dataclass(frozen=True)
class Pages:
    """What the pages show. `latest` never blocks; `stale_after` (seconds) is how long the loop may stand still.

    The handlers are coroutines, so they run one at a time on the server's thread: scrapes cannot pile up into
    threads beside the loop.
    """

    latest: Callable[[], Report]
    registry: Collector
    stale_after: float
    clock: Callable[[], float]

    def app(self) -> Starlette:
        """The application; only GET and HEAD are allowed."""
        return Starlette(
            routes=[
                Route("/", self.index),
                Route("/metrics", self.metrics),
                Route("/livez", self.livez),
                Route("/readyz", self.readyz),
            ]
        )

    async def index(self, _: Request) -> Response:
        """Links to the other pages."""
        return HTMLResponse(INDEX)

    async def metrics(self, request: Request) -> Response:
        """The registry in the format that the Accept header asks for."""
        accept = ",".join(request.headers.getlist("accept"))
        body, content_type = _encode(self.registry, accept)
        headers = {"Content-Type": content_type}
        if gzip_accepted(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, compresslevel=GZIP_LEVEL)
        return Response(body, headers=headers)

    async def livez(self, _: Request) -> Response:
        """200 while the loop moves and the source is not stuck. Asks nothing else: a restart mends no broker."""
        return _probe(death(self.latest(), self.clock(), self.stale_after), "alive")

    async def readyz(self, _: Request) -> Response:
        """200 while records can be scored."""
        return _probe(hindrance(self.latest()), "ready")


def _probe(complaint: str, good: str) -> Response:
    if complaint:
        return PlainTextResponse(f"not {good}: {complaint}\n", status_code=503)
    return PlainTextResponse(f"{good}\n")


def _encode(registry: Collector, accept: str) -> tuple[bytes, str]:
    """The body and its Content-Type."""
    try:
        encoder, content_type = choose_encoder(accept)
    except TypeError:
        # The client library cannot compare a version that is not a number; such a header counts as absent.
        encoder, content_type = choose_encoder("")
    return encoder(registry), content_type

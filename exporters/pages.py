"""The HTTP pages: / for people, /metrics for Prometheus, /livez and /readyz for Kubernetes."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder, gzip_accepted
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from exporters.probes import death, hindrance
from exporters.status.page import StatusPage, policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.registry import Collector
    from starlette.requests import Request

    from agent.report import Report
    from exporters.status.batches import Shown

# Scrapes stay inside the cluster: beyond the lowest level, time costs more than bytes.
GZIP_LEVEL = 1
# Where the page may load from is in its policy; nothing of it is to be kept, for it may quote texts.
PRIVATE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Pages:
    """What the pages show. `latest` never blocks; `stale_after` (seconds) is how long the loop may stand still.

    `shown` is what the status page may show beside the Report.

    The handlers are coroutines, so they run one at a time on the server's thread: scrapes cannot pile up into
    threads beside the loop.
    """

    latest: Callable[[], Report]
    registry: Collector
    stale_after: float
    clock: Callable[[], float]
    shown: Shown

    def app(self) -> Starlette:
        """The application; only GET and HEAD are allowed."""
        status = StatusRoutes(StatusPage(self.latest, self.stale_after, self.clock, self.shown))
        return Starlette(
            routes=[
                Route("/", status.page),
                Route("/status.json", status.facts),
                Route("/batches/{episode}.jsonl", status.items),
                Route("/metrics", self.metrics),
                Route("/livez", self.livez),
                Route("/readyz", self.readyz),
            ]
        )

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


@dataclass(frozen=True)
class StatusRoutes:
    """The status page, its facts for scripts, and what can be downloaded from it."""

    status: StatusPage

    async def page(self, request: Request) -> Response:
        """The page, with the slice that the address asks for in detail."""
        body = self.status.html(request.query_params.get("slice"))
        headers = {**PRIVATE, "Content-Security-Policy": policy()}
        return Response(body, media_type="text/html", headers=headers)

    async def facts(self, _: Request) -> Response:
        """The same facts as JSON."""
        return Response(self.status.json(), media_type="application/json", headers=PRIVATE)

    async def items(self, request: Request) -> Response:
        """The items of an annotation batch that the Report names; 404 for anything else."""
        episode = request.path_params["episode"]
        found = self.status.items(episode)
        if found is None:
            return PlainTextResponse("There is no such annotation batch.\n", status_code=404)
        name = f'attachment; filename="leadline-{episode}.jsonl"'
        headers = {**PRIVATE, "Content-Security-Policy": "default-src 'none'", "Content-Disposition": name}
        return Response(found, media_type="application/x-ndjson", headers=headers)


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

"""The status page as HTML and as JSON, rendered when it is asked for: once for each Report and slice looked at.

Names and texts come from outside: the template escapes them, and a content security policy lets nothing run or
style but what is named by its hash, and nothing be asked but this server.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from exporters.status import asked, view
from exporters.status.facts import plain, status_of
from exporters.status.format import bare, count, machine
from exporters.status.health import facts, worries
from exporters.status.scripts import machine_readable
from exporters.status.words import answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Template

    from agent.report import Report
    from exporters.status.batches import Shown
    from exporters.status.facts import SliceFacts, Status

TEMPLATES = Path(__file__).parents[1] / "templates"
TEMPLATE, STYLE, SCRIPT = "status.html.j2", "status.css", "status.js"


@dataclass
class StatusPage:
    """Renders the newest Report. `latest` never blocks; `stale_after` (seconds) as for /livez.

    Used from one thread. Keeps what it rendered of the newest Report, and nothing of older ones.
    """

    latest: Callable[[], Report]
    stale_after: float
    clock: Callable[[], float]
    shown: Shown

    def __post_init__(self) -> None:
        self._of: Report | None = None
        self._trouble = ""
        self._rendered: dict[str, bytes] = {}

    def html(self, chosen: str | None = None) -> bytes:
        """The whole page, with the slice of this name in detail, or else the worst."""
        status = self._status()
        looked_at = status.named(chosen)
        name = "" if looked_at is None else looked_at.name
        if name not in self._rendered:
            self._rendered[name] = _page(status, looked_at, self.shown).encode("utf-8", "backslashreplace")
        return self._rendered[name]

    def json(self) -> bytes:
        """The same facts for scripts. What is not known is null."""
        return machine_readable(self._status())

    def items(self, episode: str) -> bytes | None:
        """The annotation batch of this episode; None where there is none, whatever is asked for."""
        return self.shown.download(self.latest(), episode)

    def _status(self) -> Status:
        report = self.latest()
        status = status_of(report, self.clock(), self.stale_after)
        if report is not self._of or status.trouble != self._trouble:
            self._of, self._trouble, self._rendered = report, status.trouble, {}
        return status


def policy() -> str:
    """The content security policy of the page."""
    return (
        f"default-src 'none'; style-src '{_hash(_file(STYLE))}'; script-src '{_hash(_file(SCRIPT))}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _page(status: Status, chosen: SliceFacts | None, shown: Shown) -> str:
    report, now = status.report, status.now
    return _template().render(
        answer=answer(status),
        limit=bare(status.limit) if isfinite(status.limit) else "",
        tiles=view.tiles(status),
        rows=view.rows(status),
        detail=None if chosen is None else view.detail(chosen, status),
        batches=asked.batches(report.alerts, now, texts=shown.texts),
        dissimilar=asked.dissimilar(shown.dissimilar(report), texts=shown.texts),
        episodes=asked.episodes(report.alerts, now),
        worries=worries(report),
        agent=facts(report),
        model=plain(report.info.model),
        version=plain(report.version),
        time=machine(now),
        style=_file(STYLE),
        script=_file(SCRIPT),
    )


@lru_cache(maxsize=1)
def _template() -> Template:
    # Imported here: an agent whose page nobody opens does without.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - see above

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "percent": lambda share: f"{share:.1%}", "code": _code}
    return environment.get_template(TEMPLATE)


def _code(text: str) -> Markup:
    """What stands between backticks as code."""
    code = Markup("<code>{}</code>")
    parts = (code.format(part) if place % 2 else escape(part) for place, part in enumerate(text.split("`")))
    return Markup("").join(parts)


@lru_cache(maxsize=2)
def _file(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """Its name in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

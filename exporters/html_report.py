"""The report of an evaluation: one HTML file with everything in it, which opens without a network.

Texts and labels come from outside: the template escapes them, and a content security policy lets nothing run but
the two scripts that are named by their hash, and nothing load at all.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import UsageError
from exporters.evaluation_plots import CALIBRATIONS, figures
from exporters.evaluation_words import answer, mood, number, percent, points

if TYPE_CHECKING:
    from agent.evaluation_report import Evaluation

TEMPLATES = Path(__file__).with_name("templates")
TEMPLATE = "evaluation.html.j2"
DRAW = "evaluation.js"


def check_report_place(path: Path) -> None:
    """UsageError unless an HTML file could be written here; ask before long work."""
    if path.suffix not in {".html", ".htm"}:
        raise UsageError(f"{path}: not a report Leadline writes: the name must end in .html")
    if path.is_dir():
        raise UsageError(f"{path}: is a directory: give the name of a file")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise UsageError(f"{path}: cannot be written: {above} is no directory that can be written to")


def write_report(evaluation: Evaluation, path: Path) -> None:
    """Write the report, whole or not at all. UsageError if it cannot be written."""
    page = report_page(evaluation)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(page)
            Path(scratch).chmod(0o600)  # it quotes texts
            Path(scratch).replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path(scratch).unlink()
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error


def report_page(evaluation: Evaluation) -> str:
    """The whole page. The same evaluation gives the same page."""
    # Imported here: only a report needs them.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - see above
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - see above

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    environment.filters |= {"percent": percent, "points": points, "number": number}
    scripts = [get_plotlyjs(), (TEMPLATES / DRAW).read_text(encoding="utf-8")]
    return environment.get_template(TEMPLATE).render(
        evaluation=evaluation,
        answer=answer(evaluation),
        mood=mood(evaluation.sd),
        figures=figures(evaluation),
        calibrations=CALIBRATIONS,
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
    )


def _hash(script: str) -> str:
    """The script's name in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

"""An episode in plain words, for a person who has just been woken. Never a text of a record."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING

from agent.alert_report import Kind, Outcome

if TYPE_CHECKING:
    from agent.alert_report import Episode

LONGEST_NAME = 200
ENDINGS = {
    Outcome.RECOVERED: "the estimated drop is back below the limit",
    Outcome.RETURNED: "the traffic is like the source again",
    Outcome.SILENT: "the slice has had no more traffic",
    Outcome.HARMLESS: "labels came back, and say that no more than you accept is lost",
    Outcome.MOVED: "another replica reads its records now, and will say if it lasts",
    Outcome.SUPERSEDED: "the agent was started with another reference or source, and will say if it lasts",
}


def readable(name: str) -> str:
    r"""A name, of a slice for example, that fits on a line and into UTF-8.

    >>> readable("two\nlines \ud800")
    'two lines \\ud800'
    """
    safe = name.encode("utf-8", "backslashreplace").decode()
    line = "".join(letter if letter.isprintable() else " " for letter in safe)
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"


def summary(model: str, episode: Episode) -> str:
    """One line: what is the matter, and where."""
    where = f"{readable(model)}, slice {readable(episode.slice)}"
    if episode.kind is Kind.UNKNOWN:
        return f"{where}: the traffic has changed, and nobody can tell whether accuracy has dropped"
    return f"{where}: accuracy has probably dropped{_by(episode)}"


def description(episode: Episode) -> str:
    """What it rests on, since when, and what to do about it."""
    items = f"{episode.items:,} items"
    if episode.kind is Kind.UNKNOWN:
        ground = f"Seen on {items}{_doubt(episode)}."
    else:
        ground = f"Estimated without labels on {items}{_bounds(episode)}."
    since = _moment(episode.since)
    began = f" The change began at {since}." if since else ""
    labels = f" {episode.needed:,} labels are asked for." if episode.needed > 0 else ""
    return f"{ground}{began}{labels} Episode {readable(episode.id)}."


def _doubt(episode: Episode) -> str:
    """Why nobody can tell."""
    if episode.outside:
        return (
            f", which lie outside what the reference domains showed ({', '.join(map(readable, episode.outside))})"
        )
    return f"; the estimate is too uncertain to say more{_bounds(episode)}"


def _bounds(episode: Episode) -> str:
    low, high = episode.drop.low, episode.drop.high
    return f", between {_points(low)} and {_points(high)}" if isfinite(low) and isfinite(high) else ""


def ending(episode: Episode) -> str:
    """Why it is over; empty while it is not."""
    why = ENDINGS.get(episode.outcome)
    return "" if why is None else f"Over: {why}."


def _by(episode: Episode) -> str:
    drop = episode.drop.estimate
    return f" by {_points(drop)} points" if isfinite(drop) else ""


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # NaN, or a time of no calendar
        return ""

"""JSON paths, as far as a field of a message needs them: `a.b[0]["any key"]`, with or without `$` before it."""

from __future__ import annotations

import json
import re

Step = str | int
Path = tuple[Step, ...]

_NAME = r"[^\W\d][\w-]*"
_STEP = re.compile(
    rf"""
    (?P<dot>\.?)(?P<name>{_NAME})
    | \[ (?P<index>-?[0-9]{{1,9}}) \]
    | \[ (?P<key>"(?:[^"\\]|\\.)*") \]
    """,
    re.VERBOSE,
)


def compiled(path: str) -> Path:
    """The steps of a path. ValueError, saying where, if it is none.

    >>> compiled('$.request.items[0]["the text"]')
    ('request', 'items', 0, 'the text')
    """
    place = 1 if path.startswith("$") else 0
    steps: list[Step] = []
    while place < len(path):
        match = _STEP.match(path, place)
        # Names are parted by dots; only the very first has none before it.
        if match is None or (match["name"] is not None and bool(match["dot"]) != bool(place)):
            raise ValueError(f"cannot be read from character {place + 1} on: {path[place:]!r}")
        steps.append(_step(match))
        place = match.end()
    if not steps:
        raise ValueError("is empty")
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return int(match["index"])
    return str(json.loads(match["key"], strict=False)) if match["key"] is not None else match["name"]


def found(content: object, path: Path) -> object:
    """The value at a path, None where there is none.

    >>> found({"items": [{"text": "good"}]}, ("items", -1, "text"))
    'good'
    """
    for step in path:
        if isinstance(step, str):
            if not isinstance(content, dict):
                return None
            content = content.get(step)
        else:
            if not isinstance(content, list) or not -len(content) <= step < len(content):
                return None
            content = content[step]
    return content

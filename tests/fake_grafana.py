"""Grafana's annotations API as a real HTTP server that keeps them in memory.

Grafana itself cannot be installed where these tests run. What matters of it is taken from its own source: a tag is
split at the first colon, what follows a second one is lost, key and value have at most 100 characters, all tags
together 500; a PATCH takes every field that is neither zero nor empty, and *any* list of tags, an empty one too; a
search takes all annotations that have every tag, newest end first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.moody_server import Answer, Asked, MoodyServer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TOKEN = "glsa_secret"  # noqa: S105 - of a server in this process


class FakeGrafana(MoodyServer):
    """One Grafana, behind `prefix`; `kept` is what it holds, by id."""

    def __init__(self, prefix: str = "", certificate: Path | None = None) -> None:
        super().__init__(self._usual_answer, certificate)
        self.token = TOKEN
        self.kept: dict[int, dict[str, Any]] = {}
        self._prefix = f"{prefix}/api/annotations"
        self._newest = 0

    @property
    def written(self) -> list[str]:
        """The methods of all requests that were no searches."""
        return [asked.method for asked in self.asked if asked.method != "GET"]

    def add(self, given: dict[str, Any]) -> int:
        """Keep one annotation; ValueError, as its database has it, for what does not fit."""
        tags = _pairs(given["tags"])
        if any(len(part) > 100 for pair in tags for part in pair):
            raise ValueError("value too long for type character varying(100)")
        joined = [":".join(filter(None, pair)) for pair in tags]
        if len(json.dumps(joined, separators=(",", ":"))) > 500:
            raise ValueError("tags length exceeds the maximum allowed")
        if not given["text"]:
            raise ValueError("text field should not be empty")
        self._newest += 1
        start = given["time"] or 1
        self.kept[self._newest] = {
            "id": self._newest,
            "dashboardUID": given.get("dashboardUID") or "",
            "panelId": given.get("panelId") or 0,
            "time": start,
            "timeEnd": given["timeEnd"] or start,
            "tags": joined,
            "text": given["text"],
        }
        return self._newest

    def _usual_answer(self, asked: Asked) -> Answer:
        if asked.headers.get("Authorization") != f"Bearer {self.token}":
            return _json(401, {"message": "Invalid API key"})
        parts = urlsplit(asked.path)
        if not parts.path.startswith(self._prefix):
            return _json(404, {"message": "Not found"})
        if asked.method == "GET":
            return _json(200, self._search(parse_qs(parts.query)))
        if asked.method == "POST":
            try:
                return _json(200, {"message": "Annotation added", "id": self.add(json.loads(asked.body))})
            except ValueError as error:
                return _json(500, {"message": "Failed to save annotation", "error": str(error)})
        return self._change(asked, int(parts.path.rpartition("/")[2]))

    def _search(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        wanted = _pairs(query.get("tags", []))
        found = [each for each in self.kept.values() if _has(_pairs(each["tags"]), wanted)]
        found.sort(key=lambda each: (each["timeEnd"], each["time"]), reverse=True)
        return found[: int(query.get("limit", ["100"])[0])]

    def _change(self, asked: Asked, number: int) -> Answer:
        if number not in self.kept:
            return _json(404, {"message": "Annotation not found"})
        if asked.method == "DELETE":
            del self.kept[number]
            return _json(200, {"message": "Annotation deleted"})
        given = json.loads(asked.body)
        changed = {name: given[name] for name in ("time", "timeEnd", "text") if given.get(name)}
        if given.get("tags") is not None:
            changed["tags"] = given["tags"]
        self.kept[number] |= changed
        return _json(200, {"message": "Annotation patched"})


def _json(status: int, content: object) -> Answer:
    return Answer(status, json.dumps(content).encode())


def _pairs(tags: Iterable[str]) -> list[tuple[str, str]]:
    """Keys and values, as Grafana keeps tags."""
    found = []
    for tag in tags:
        key, _, rest = tag.partition(":")
        pair = key.strip(), rest.partition(":")[0].strip()
        if pair[0] and pair not in found:
            found.append(pair)
    return found


def _has(tags: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> bool:
    return all(any(key == name and value in {"", held} for name, held in tags) for key, value in wanted)

"""A dashboard: rows of panels laid out, variables, links and annotations. Pure; `json` is what Grafana reads."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.grafana.panels import DATASOURCE, Json, Panel

COLUMNS = 24
OVERVIEW_UID = "leadline-overview"
MODEL_UID = "leadline-model"
TAG = "leadline"
# The version of Grafana's dashboard format that this is written in; newer Grafanas bring it up by themselves.
SCHEMA = 39


@dataclass(frozen=True)
class Row:
    """Panels under one heading, from left to right, broken into lines where 24 columns are full.

    The ids of its panels follow its own `number`. People link to panels by id: add a panel at the end of a row,
    and the others keep theirs.
    """

    number: int
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Variable:
    """Something to choose, `first` at first: what `query` finds, or the `values` that are named here."""

    name: str
    title: str
    about: str
    query: str = ""
    values: tuple[str, ...] = ()
    first: str = ""

    def json(self) -> Json:
        """The variable as Grafana reads it."""
        common: Json = {
            "name": self.name,
            "label": self.title,
            "description": self.about,
            "hide": 0,
            "skipUrlSync": False,
            "multi": False,
            "includeAll": False,
            "current": {"selected": True, "text": self.first, "value": self.first} if self.first else {},
        }
        if self.values:
            options = [{"text": each, "value": each, "selected": each == self.first} for each in self.values]
            return common | {"type": "custom", "query": ",".join(self.values), "options": options}
        return common | {
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"qryType": 1, "query": self.query, "refId": f"Variable-{self.name}"},
            # Again whenever the time range changes: slices come and go.
            "refresh": 2,
            "regex": "",
            "sort": 1,
            "options": [],
        }


# Grafana's own store of annotations has this uid in every Grafana.
_STORE: Json = {"type": "grafana", "uid": "-- Grafana --"}


@dataclass(frozen=True)
class Tagged:
    """What agents write into Grafana itself (docs/GRAFANA.md), of all models or of those with these tags."""

    title: str
    tags: tuple[str, ...] = ()
    on: bool = True

    def json(self) -> Json:
        """The annotations as Grafana reads them."""
        return {
            "name": self.title,
            "datasource": _STORE,
            "enable": self.on,
            "hide": False,
            "iconColor": "red",
            "target": {"type": "tags", "tags": [TAG, *self.tags], "matchAny": False, "limit": 100},
        }


@dataclass(frozen=True)
class Marked:
    """Moments that a query gives in milliseconds: they are there also where no agent writes into Grafana."""

    title: str
    expr: str

    def json(self) -> Json:
        """The annotations as Grafana reads them."""
        return {
            "name": self.title,
            "datasource": DATASOURCE,
            "enable": True,
            "hide": False,
            "iconColor": "orange",
            "expr": self.expr,
            "useValueForTime": "on",
            "titleFormat": self.title,
            "textFormat": "{{model}} {{slice}}",
            "tagKeys": "",
        }


@dataclass(frozen=True)
class Dashboard:
    """A page. `since` is how far it looks back at first, `other` (title, uid) the page beside it."""

    uid: str
    title: str
    about: str
    since: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...]
    marks: tuple[Tagged | Marked, ...]
    other: tuple[str, str]

    def json(self) -> Json:
        """The dashboard as Grafana reads it: without an id, which Grafana gives, and found by its uid."""
        return {
            "id": None,
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": [TAG],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "timezone": "browser",
            "refresh": "1m",
            "time": {"from": self.since, "to": "now"},
            "fiscalYearStartMonth": 0,
            "liveNow": False,
            "weekStart": "",
            "timepicker": {},
            "links": [_beside(*self.other)],
            "templating": {"list": [_datasource(), *(each.json() for each in self.variables)]},
            "annotations": {"list": [_built_in(), *(each.json() for each in self.marks)]},
            "panels": laid_out(self.rows),
        }


def laid_out(rows: tuple[Row, ...]) -> list[Json]:
    """All rows one below the other; a folded row holds its panels in itself."""
    panels: list[Json] = []
    top = 0
    for row in rows:
        inside, below = _lines(row, top + 1)
        panels += [_heading(row, top), *inside]
        top = below
    return panels


def _lines(row: Row, top: int) -> tuple[list[Json], int]:
    """The row's panels from `top` on, and where the next row begins."""
    placed: list[Json] = []
    left, below = 0, top
    for place, panel in enumerate(row.panels, 1):
        if left + panel.width > COLUMNS:
            left, top = 0, below
        at = {"x": left, "y": top, "w": panel.width, "h": panel.height}
        placed.append(panel.json(row.number + place, at))
        left, below = left + panel.width, max(below, top + panel.height)
    return placed, below


def _heading(row: Row, top: int) -> Json:
    return {
        "id": row.number,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
        "panels": [],
    }


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "description": "The Prometheus that scrapes the agents.",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }


def _beside(title: str, uid: str) -> Json:
    return {
        "title": title,
        "type": "link",
        "url": f"/d/{uid}",
        "icon": "dashboard",
        "tooltip": "",
        "tags": [],
        "asDropdown": False,
        "targetBlank": False,
        "includeVars": True,
        "keepTime": True,
    }


def _built_in() -> Json:
    return {
        "builtIn": 1,
        "name": "Annotations & Alerts",
        "datasource": _STORE,
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "type": "dashboard",
    }

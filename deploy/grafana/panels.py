"""The kinds of panel the dashboards are made of. Pure: a panel is a dataclass, `json` is what Grafana reads.

What all panels of a kind have in common is said here once; overview.py and model.py say the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

Json = dict[str, Any]

# The datasource is a variable of each dashboard, chosen where it is shown.
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "text"
# (from this value on, this colour); None is from the lowest on.
Steps = tuple[tuple[float | None, str], ...]
PLAIN: Steps = ((None, GREY),)
# How a line is drawn that the eye should follow, and one that says where something begins.
STRONG: Json = {"lineWidth": 2}
DASHES: Json = {"lineStyle": {"fill": "dash", "dash": [10, 10]}, "showPoints": "never"}
# (value, what is written instead, its colour).
Words = tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Query:
    """One PromQL expression, and what its series are called. With a unit of their own they have the right axis."""

    expr: str
    legend: str
    unit: str = ""


@dataclass(frozen=True)
class Shape:
    """How some series of a panel differ from the others: those whose legend is `legend`."""

    legend: str
    custom: Json
    color: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """A rectangle of `width` (of 24 columns) by `height` (of about 38 pixels). `about` is read under its (i).

    `empty` is what stands there without data, `link` where a click on a series or cell leads.
    """

    type: ClassVar[str]
    instant: ClassVar[bool] = False
    title: str
    about: str
    unit: str
    queries: tuple[Query, ...]
    width: int = 8
    height: int = 8
    decimals: int | None = None
    low: float | None = None
    high: float | None = None
    steps: Steps = PLAIN
    words: Words = ()
    empty: str = ""
    link: str = ""

    def json(self, number: int, place: Json) -> Json:
        """The panel as Grafana reads it, under this id at this place."""
        return {
            "id": number,
            "type": self.type,
            "title": self.title,
            "description": self.about,
            "datasource": DATASOURCE,
            "gridPos": place,
            "targets": [self._target(*each) for each in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self.overrides()},
            "options": self.options(),
            "transformations": self.transformations(),
        }

    @abstractmethod
    def options(self) -> Json:
        """What only this kind of panel has."""

    def custom(self) -> Json:
        """How this kind of panel draws a series."""
        return {}

    def overrides(self) -> list[Json]:
        """Series that are drawn otherwise."""
        return [
            override(each.legend, {"unit": each.unit, "custom.axisPlacement": "right"})
            for each in self.queries
            if each.unit
        ]

    def transformations(self) -> list[Json]:
        """What Grafana does to the results before it draws them."""
        return []

    def _target(self, place: int, query: Query) -> Json:
        return {
            "refId": chr(ord("A") + place),
            "datasource": DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
            "editorMode": "code",
            "instant": self.instant,
            "range": not self.instant,
        }

    def _defaults(self) -> Json:
        asked = {
            "decimals": self.decimals,
            "min": self.low,
            "max": self.high,
            "noValue": self.empty or None,
            "links": [_link(self.link)] if self.link else None,
            "custom": self.custom() or None,
        }
        return {
            "unit": self.unit,
            "mappings": mappings(self.words),
            "thresholds": thresholds(self.steps),
            "color": {"mode": "thresholds"},
        } | {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Stat(Panel):
    """One number a query, of now, in large type."""

    type: ClassVar[str] = "stat"
    instant: ClassVar[bool] = True
    width: int = 4
    height: int = 4

    def options(self) -> Json:
        """With a name above each number only where there are several."""
        return {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "value_and_name" if len(self.queries) > 1 or "{{" in self.queries[0].legend else "value",
            "wideLayout": True,
        }


@dataclass(frozen=True, kw_only=True)
class Series(Panel):
    """Lines over time. `line` is where the steps are drawn; `stacked` adds the series up."""

    type: ClassVar[str] = "timeseries"
    width: int = 12
    line: bool = False
    stacked: bool = False
    shapes: tuple[Shape, ...] = ()

    def options(self) -> Json:
        """The newest values beside the names, the highest series first in the tooltip."""
        return {
            "legend": {
                "showLegend": True,
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }

    def custom(self) -> Json:
        """A gap stays a gap: what is not known must not look like a line."""
        return {
            "drawStyle": "line",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "fillOpacity": 30 if self.stacked else 0,
            "showPoints": "auto",
            "spanNulls": False,
            "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "dashed" if self.line else "off"},
        }

    def overrides(self) -> list[Json]:
        """Those of another unit, and those of another shape."""
        return super().overrides() + [
            override(
                each.legend,
                {f"custom.{name}": value for name, value in each.custom.items()}
                | ({"color": {"mode": "fixed", "fixedColor": each.color}} if each.color else {}),
            )
            for each in self.shapes
        ]

    def _defaults(self) -> Json:
        return super()._defaults() | {"color": {"mode": "palette-classic"}}


@dataclass(frozen=True, kw_only=True)
class Timeline(Panel):
    """A band for each series, coloured by its words."""

    type: ClassVar[str] = "state-timeline"
    width: int = 24

    def options(self) -> Json:
        """Equal neighbours are one band."""
        return {
            "mergeValues": True,
            "showValue": "auto",
            "alignValue": "left",
            "rowHeight": 0.8,
            "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "single", "sort": "none"},
        }

    def custom(self) -> Json:
        """Bands without a rim; a gap stays a gap."""
        return {"fillOpacity": 70, "lineWidth": 0}


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """The buckets of one histogram over time; the query gives them cumulative, by `le`."""

    type: ClassVar[str] = "heatmap"
    axis: str = "short"

    def options(self) -> Json:
        """Darker is more."""
        return {
            "calculate": False,
            "cellGap": 1,
            "cellValues": {"unit": self.unit},
            "color": {
                "mode": "scheme",
                "scheme": "Oranges",
                "fill": "dark-orange",
                "scale": "exponential",
                "exponent": 0.5,
                "steps": 64,
                "reverse": False,
                "min": 0,
            },
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "showValue": "never",
            "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": True},
            "yAxis": {"axisPlacement": "left", "unit": self.axis, "reverse": False},
        }

    def custom(self) -> Json:
        """Buckets are told apart by their bounds, not drawn to scale."""
        return {"scaleDistribution": {"type": "linear"}}

    def _target(self, place: int, query: Query) -> Json:
        return super()._target(place, query) | {"format": "heatmap"}


def override(legend: str, properties: Json) -> Json:
    """These properties for the series or column of this name only."""
    return {
        "matcher": {"id": "byName", "options": legend},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }


def mappings(words: Words) -> list[Json]:
    """What is written instead of which number."""
    if not words:
        return []
    told = {
        str(value): {"text": text, "color": color, "index": place}
        for place, (value, text, color) in enumerate(words)
    }
    return [{"type": "value", "options": told}]


def thresholds(steps: Steps) -> Json:
    """From where on which colour."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def _link(url: str) -> Json:
    return {"title": "This model and slice", "url": url, "targetBlank": False}

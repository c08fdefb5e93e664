"""Tables: a row for each model and slice, or each agent; a column for each query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deploy.grafana.panels import PLAIN, Json, Panel, Query, Steps, Words, mappings, override, thresholds


@dataclass(frozen=True)
class Column:
    """A column of a table: the numbers of a query, or with `label` the values of its label of that name.

    Without a query it is a label of the other columns' queries.
    """

    title: str
    expr: str = ""
    unit: str = ""
    steps: Steps = PLAIN
    words: Words = ()
    label: bool = False


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """A row for each set of labels that all columns share, highest first in the column `order`."""

    type: ClassVar[str] = "table"
    instant: ClassVar[bool] = True
    width: int = 24
    queries: tuple[Query, ...] = ()
    columns: tuple[Column, ...] = ()
    order: str = ""
    unit: str = "short"

    def __post_init__(self) -> None:
        """The queries are those of the columns."""
        asked = tuple(Query(each.expr, "") for each in self.columns if each.expr)
        object.__setattr__(self, "queries", asked)

    def options(self) -> Json:
        """Sorted so that what needs a person stands on top."""
        return {
            "showHeader": True,
            "cellHeight": "sm",
            "frameIndex": 0,
            "footer": {"show": False, "reducer": []},
            "sortBy": [{"displayName": self.order, "desc": True}] if self.order else [],
        }

    def custom(self) -> Json:
        """Every column can be filtered by its values."""
        return {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False}

    def overrides(self) -> list[Json]:
        """Unit, words and colours of each column."""
        return [override(each.title, _cells(each)) for each in self.columns if _cells(each)]

    def transformations(self) -> list[Json]:
        """One row for each set of shared labels, its columns in the order of the table here."""
        letters = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        values = [f"Value #{next(letters)}" if each.expr else "" for each in self.columns]
        names = [
            each.title if each.label or not each.expr else value
            for each, value in zip(self.columns, values, strict=True)
        ]
        unread = [value for each, value in zip(self.columns, values, strict=True) if each.label]
        return [
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": dict.fromkeys(("Time", *unread), True),
                    "indexByName": {name: place for place, name in enumerate(names)},
                    "renameByName": {
                        name: each.title
                        for name, each in zip(names, self.columns, strict=True)
                        if name != each.title
                    },
                },
            },
        ]

    def _target(self, place: int, query: Query) -> Json:
        return super()._target(place, query) | {"format": "table"}


def _cells(column: Column) -> Json:
    marked = column.steps is not PLAIN or bool(column.words)
    asked = {
        "unit": column.unit or None,
        "mappings": mappings(column.words) or None,
        "thresholds": thresholds(column.steps) if column.steps is not PLAIN else None,
        "custom.cellOptions": {"type": "color-text"} if marked else None,
    }
    return {name: value for name, value in asked.items() if value is not None}

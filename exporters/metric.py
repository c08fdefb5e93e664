"""What a row of the table of metrics is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.report import Report
    from exporters.samples import Distributions, Labels, Scalars


@dataclass(frozen=True)
class Scalar:
    """A metric with one number a series. `read` keys it by label values, in the order of `labels`.

    An info's number is always 1: what it says is in its labels.
    """

    name: str
    kind: Literal["counter", "gauge", "info"]
    labels: Labels
    read: Callable[[Report], Scalars]
    help: str


@dataclass(frozen=True)
class Distribution:
    """A metric with one histogram a series. `read` keys it by label values, in the order of `labels`."""

    kind: ClassVar[Literal["histogram"]] = "histogram"
    name: str
    labels: Labels
    read: Callable[[Report], Distributions]
    help: str


Metric = Scalar | Distribution

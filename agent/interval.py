"""A number and the bounds it lies between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A number and the bounds it lies between; fractions. All NaN where nothing can be said."""

    estimate: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")


# Nothing can be said.
UNKNOWN = Interval()

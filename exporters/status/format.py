"""Numbers and moments as a tired person reads them. What is not known is said, never shown as `nan`."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.interval import Interval

NOTHING = "n/a"
# Above this width in points, tenths are noise.
WIDE = 3.0
MINUTE, HOUR, DAY = 60, 3600, 86_400


def points(fraction: float) -> str:
    """Accuracy in points, to a tenth.

    >>> points(0.1234), points(-0.0001), points(float("nan"))
    ('12.3', '0.0', 'n/a')
    """
    return f"{_rounded(100 * fraction, 1):.1f}" if isfinite(fraction) else NOTHING


def span(interval: Interval) -> str:
    """The bounds of an interval, in points.

    >>> from agent.interval import Interval
    >>> span(Interval(0.05, -0.01, 0.1)), span(Interval())
    ('-1.0 to 10.0', 'n/a')
    """
    known = isfinite(interval.low) and isfinite(interval.high)
    return f"{points(interval.low)} to {points(interval.high)}" if known else NOTHING


def about(interval: Interval) -> str:
    """A drop in a sentence: whole points where the interval is wide.

    >>> from agent.interval import Interval
    >>> about(Interval(0.12, 0.07, 0.17)), about(Interval(0.012, 0.004, 0.02)), about(Interval(0.01, 0.0, 0.2))
    ('12 points (7 to 17)', '1.2 points (0.4 to 2.0)', '1 point (0 to 20)')
    """
    digits = 0 if 100 * (interval.high - interval.low) >= WIDE else 1
    middle, low, high = (
        f"{_rounded(100 * each, digits):.{digits}f}" if isfinite(each) else NOTHING
        for each in (interval.estimate, interval.low, interval.high)
    )
    unit = "point" if middle in {"1", "-1"} else "points"
    return f"{middle} {unit} ({low} to {high})"


def bare(fraction: float) -> str:
    """Points without needless digits, for limits that people chose.

    >>> bare(0.05), bare(0.025)
    ('5', '2.5')
    """
    return f"{round(100 * fraction, 4):g}" if isfinite(fraction) else NOTHING


def accepted(limit: float) -> str:
    """What harmless means.

    >>> accepted(0.05), accepted(0.01)
    ('no more than the 5 points you accept are lost', 'no more than the 1 point you accept is lost')
    """
    one = bare(limit) == "1"
    return f"no more than the {bare(limit)} point{'' if one else 's'} you accept {'is' if one else 'are'} lost"


def percent(fraction: float) -> str:
    """A fraction as a percentage.

    >>> percent(0.052), percent(float("nan"))
    ('5.2%', 'n/a')
    """
    return f"{_rounded(100 * fraction, 1):.1f}%" if isfinite(fraction) else NOTHING


def number(value: float, digits: int = 1) -> str:
    """A plain number.

    >>> number(4.25), number(float("inf"))
    ('4.2', 'n/a')
    """
    return f"{_rounded(value, digits):.{digits}f}" if isfinite(value) else NOTHING


def count(number_of: int, thing: str) -> str:
    """How many there are, in words that agree.

    >>> count(1, "label"), count(1200, "label")
    ('1 label', '1,200 labels')
    """
    return f"{number_of:,} {thing}{'' if number_of == 1 else 's'}"


def moment(time: float, now: float) -> str:
    """A moment in UTC, with the day where that is not today.

    >>> moment(1767276000.0, 1767280000.0), moment(1767189600.0, 1767280000.0), moment(float("nan"), 0.0)
    ('14:00 UTC', '2025-12-31 14:00 UTC', 'n/a')
    """
    then, today = _date(time), _date(now)
    if then is None:
        return NOTHING
    same = today is not None and then.date() == today.date()
    return f"{then:%H:%M} UTC" if same else f"{then:%Y-%m-%d %H:%M} UTC"


def machine(time: float) -> str:
    """A moment as RFC 3339, empty where it is not known.

    >>> machine(1767276000.5)
    '2026-01-01T14:00:00Z'
    """
    then = _date(time)
    return "" if then is None else f"{then:%Y-%m-%dT%H:%M:%SZ}"


def age(time: float, now: float) -> str:
    """How long ago a moment was, in one unit.

    >>> [age(time, 10_000.0) for time in (9_999.0, 9_700.0, 1_000.0, float("nan"), 10_020.0)]
    ['1 s ago', '5 min ago', '2.5 h ago', 'never', 'in 20 s']
    """
    if not isfinite(time) or not isfinite(now):
        return "never"
    length = lasting(abs(now - time))
    return f"{length} ago" if time <= now else f"in {length}"


def lasting(seconds: float) -> str:
    """A length of time in the largest unit that fits.

    >>> [lasting(each) for each in (0.2, 59.0, 150.0, 5400.0, 7200.0, 90_000.0, 864_000.0)]
    ['0 s', '59 s', '2 min', '1.5 h', '2 h', '25 h', '10 days']
    """
    if not isfinite(seconds):
        return NOTHING
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:.0f} days"
    if seconds >= HOUR:
        return f"{round(seconds / HOUR, 1):g} h"
    return f"{seconds / MINUTE:.0f} min" if seconds >= MINUTE else f"{seconds:.0f} s"


def since(time: float, now: float, newest: float | None = None) -> str:
    """A moment, and how long ago that was.

    With `newest`, the time of the newest records, and where that is long past, as in a replay: how long before it.

    >>> since(1767276000.0, 1767283200.0), since(float("nan"), 0.0)
    ('14:00 UTC (2 h ago)', 'an unknown time')
    >>> since(1767276000.0, 1777283200.0, 1767279600.0)
    '2026-01-01 14:00 UTC (1 h before the newest records)'
    """
    return f"{moment(time, now)} ({back(time, now, newest)})" if _date(time) else "an unknown time"


def back(time: float, now: float, newest: float | None = None) -> str:
    """How far a moment lies back, as `since` has it."""
    if newest is None or now - newest < DAY or not newest >= time:
        return age(time, now)
    return f"{lasting(newest - time)} before the newest records"


def _rounded(value: float, digits: int) -> float:
    """Without a negative zero."""
    return round(value, digits) + 0.0


def _date(time: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(time, UTC)
    except (ValueError, OverflowError, OSError):  # NaN, infinity, years that no calendar has
        return None

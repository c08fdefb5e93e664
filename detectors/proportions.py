"""How sure a share of right items is, from the number of items alone."""

from __future__ import annotations

from statistics import NormalDist

LEVEL = 0.95


def normal_width(level: float = LEVEL) -> float:
    """How many standard deviations either side hold this share of a normal distribution.

    >>> round(normal_width(0.95), 2)
    1.96
    """
    return NormalDist().inv_cdf((1 + level) / 2)


def wilson(share: float, items: float, level: float = LEVEL) -> tuple[float, float]:
    """The Wilson (1927) score interval of a share of `items` independent items; 0 to 1 of none.

    Holds for the mean of any quality in [0, 1] as well: its variance is at most that of right and wrong. Unlike
    the share plus or minus its standard error, it stays inside 0 to 1 and does not vanish at a share of 0 or 1.

    >>> [round(bound, 3) for bound in wilson(0.9, 50)]
    [0.786, 0.957]
    """
    if not items:
        return 0.0, 1.0
    z = normal_width(level)
    squared = z * z / items
    middle = (share + squared / 2) / (1 + squared)
    width = z * (share * (1 - share) / items + squared / (4 * items)) ** 0.5 / (1 + squared)
    return min(max(middle - width, 0.0), share), max(min(middle + width, 1.0), share)


def difference(
    first: tuple[float, float], second: tuple[float, float], level: float = LEVEL
) -> tuple[float, float]:
    """The interval of first - second, each a share and its independent items (Newcombe 1998, method 10).

    It combines the two Wilson intervals, so that it is honest for few items and near 0 and 1.

    >>> [round(bound, 4) for bound in difference((56 / 70, 70), (48 / 80, 80))]
    [0.0524, 0.3339]
    """
    (a, _), (b, _) = first, second
    (a_low, a_high), (b_low, b_high) = wilson(*first, level), wilson(*second, level)
    gap = a - b
    return gap - ((a - a_low) ** 2 + (b_high - b) ** 2) ** 0.5, gap + ((a_high - a) ** 2 + (b - b_low) ** 2) ** 0.5

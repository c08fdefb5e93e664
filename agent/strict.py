"""What every part of a configuration is: closed and frozen, with durations written as people write them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")


def seconds(value: object) -> object:
    """A number of seconds from `90`, `"90s"`, `"5m"`, `"6h"` or `"1d"`. ValueError for other text.

    >>> [seconds(text) for text in (90, "90s", "5m", "6h", "1.5d")]
    [90, 90.0, 300.0, 21600.0, 129600.0]
    """
    if not isinstance(value, str | bool):
        return value
    match = DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError("expected a duration such as 90, 90s, 5m, 6h or 1d")
    return float(match[1]) * SECONDS[match[2]]


Duration = Annotated[float, BeforeValidator(seconds), Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]


class Strict(BaseModel):
    """A closed, frozen part of a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

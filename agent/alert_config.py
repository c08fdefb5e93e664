"""When labels are asked for, and what becomes of the request: the parts `alerts` and `annotation`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from agent.strict import Duration, Strict


def _named(function: str) -> str:
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", function) is None:
        raise ValueError("expected `package.module:function`")
    return function


Function = Annotated[str, AfterValidator(_named)]


class AlertsConfig(Strict):
    """When drift is worth a page."""

    max_drop: float = Field(0.05, gt=0, lt=1, description="Accuracy you can afford to lose: 0.05 is 5 points.")
    false_alarms_per_month: float = Field(
        1.0,
        gt=0,
        le=100,
        description="How many times a month the agents that share this may see a shift where there is none, over "
        "all slices and detectors together. Every page needs a shift that was seen.",
    )
    shared_by: int = Field(1, ge=1, description="Agents that share this budget: your models, and their replicas.")
    precision: float = Field(
        0.05, gt=0, lt=0.5, description="Half width of the accuracy's interval that labels should give: 5 points."
    )


class AnnotationConfig(Strict):
    """The annotation batch that is written when an episode begins, and what it may hold."""

    path: Path = Field(description="Directory for the batches, one directory each, readable by the owner only.")
    most_items: int = Field(1000, ge=20, le=2000, description="Never ask for more labels than this.")
    dissimilar: int = Field(20, ge=0, le=500, description="Of them, the items least like the source.")
    texts: bool = Field(default=False, description="Keep the texts of sampled items, for the batches to show.")
    most_characters: int = Field(2000, ge=1, le=100_000, description="Longer texts are cut there.")
    keep: Duration = Field(604_800.0, description="After this time texts are deleted, in batches too.")
    redact: Function | None = Field(
        None,
        description="`package.module:function`, called with each text before it is kept; gives what may be kept.",
    )

"""An annotation batch: the items to label of one window, how they were drawn, and what was believed by then."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time, to check files by it
from dataclasses import dataclass, field, replace
from math import nan
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from agent.interval import UNKNOWN, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = 1
TOKENS = "tokens"
# Why a batch was drawn that no episode asked for.
ON_DEMAND = "asked"


def _known(value: Any) -> Any:  # noqa: ANN401 - whatever a file holds
    """Null as NaN: what was not known when it was written."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    return nan if value is None else value


Number = Annotated[float, BeforeValidator(_known)]
Bounds = Annotated[Interval, BeforeValidator(_known)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Span:
    """The window it was drawn from: start <= time < end (epoch seconds), and how many items it had."""

    start: float
    end: float
    items: Count


@dataclass(frozen=True)
class Believed:
    """What was estimated without labels when the batch was drawn; all NaN, with a reason, where nothing was."""

    drop: Bounds = UNKNOWN
    accuracy: Bounds = UNKNOWN
    level: Number = nan
    reason: str = ""
    inside_domains: bool = False
    metrics: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Stratum:
    """So many of the window's sample, of which so many were drawn."""

    items: Count
    drawn: Count


@dataclass(frozen=True)
class Batch:
    """What holds for all its items.

    `episode` is what asked for it, `kind` why; `task` whether the text or each of its tokens is labelled. `needed`
    labels give an interval of half width `precision`; `sampled` items of the window were there to draw from, whose
    arrays lie beside. `strata` is as in the items, in order. `created` is epoch seconds, `texts` whether any item
    shows its text.
    """

    episode: str
    slice: str
    kind: str
    model: str
    reference_id: str
    labels: tuple[str, ...]
    task: str
    window: Span
    estimate: Believed
    precision: float
    needed: Count
    sampled: Count
    strata: tuple[Stratum, ...]
    created: float
    texts: bool
    schema: int = SCHEMA

    @property
    def items(self) -> int:
        """How many items it asks to label."""
        return sum(stratum.drawn for stratum in self.strata)

    @property
    def short(self) -> int:
        """How many labels it lacks for its precision: the window's sample or the configuration gave no more."""
        return max(0, self.needed - self.items)


@dataclass(frozen=True)
class Item:
    """One item to label.

    `row` is its row in the arrays, `inclusion_probability` that of being drawn from the window's sample.
    `dissimilar` ones are there because they are least like the source. `prediction`, the calibrated
    `probabilities` by label and the `confidence` (of tokens: their mean) are the model's; where tokens are
    labelled only the last is known. `text_kept` is when the text was kept (epoch seconds).
    """

    id: str
    slice: str
    row: Count
    stratum: Count
    inclusion_probability: Annotated[float, Field(gt=0, le=1)]
    dissimilar: bool
    depth: Number
    depth_rank: Number
    confidence: Number = nan
    prediction: str | None = None
    probabilities: Mapping[str, float] | None = None
    text: str | None = None
    text_pair: str | None = None
    text_kept: float | None = None

    def without_text(self) -> Item:
        """The same item, not showing its text."""
        return replace(self, text=None, text_pair=None, text_kept=None)


@dataclass(frozen=True)
class Arrays:
    """The window's whole sample, N rows: `embedding` (N, e), `logits` (N, C).

    `features` (N, d) are absent where the head's features are the embeddings; `confidence` (N, 2), raw and
    calibrated, is there instead of logits where tokens are labelled.
    """

    embedding: NDArray[np.float16]
    logits: NDArray[np.float32] | None = None
    features: NDArray[np.float16] | None = None
    confidence: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.embedding)

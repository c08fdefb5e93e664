"""Labelled tables as a fit needs them: checked, with class indices, and with the model's outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agent.errors import UsageError
from agent.items import Items
from agent.scorer import prediction
from agent.tables import read_table

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from agent.config import ModelConfig
    from detectors.contract import Outputs

# Below this the p-values, whose steps are 1 / (rows + 1), say nothing near 0.05.
LEAST_ROWS = 50


@dataclass(frozen=True)
class Labelled:
    """n items with their true class indices (n,)."""

    path: Path
    items: Items
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.labels)

    def accuracy(self, outputs: Outputs) -> float:
        """Share of the items that the model with these outputs gets right."""
        predicted, _ = prediction(outputs, 1.0)
        return float((predicted == self.labels).mean())


def read_labelled(path: Path, model: ModelConfig, features: int | None) -> Labelled:
    """The table with labels, and with the model's logits and features where they come with the tables.

    `features` is the width of the features that `feature_width` found. UsageError for a table that is too small
    or whose rows do not fit the model.
    """
    table = read_table(path)
    if len(table) < LEAST_ROWS:
        raise UsageError(f"{path}: {len(table)} rows are too few, at least {LEAST_ROWS} are needed")
    given = model.outputs == "table"
    return Labelled(
        path=path,
        items=Items.of_table(table, logits=len(model.labels) if given else None, features=features),
        labels=table.labels(model.labels),
    )


def feature_width(path: Path, model: ModelConfig) -> int | None:
    """How many features a row of this table carries, or None if features do not come with the tables."""
    table = read_table(path)
    if model.outputs != "table" or not table.has("features"):
        return None
    width: int = table.matrix("features").shape[1]
    return width


def check_classes(train: Labelled, model: ModelConfig) -> None:
    """UsageError unless the training rows show what a head must learn: every class that the model names."""
    seen = set(np.unique(train.labels).tolist())
    if len(seen) == 1:
        raise UsageError(
            f"{train.path}: every row is {model.labels[seen.pop()]!r}: at least two labels are needed"
        )
    absent = [name for index, name in enumerate(model.labels) if index not in seen]
    if absent and model.outputs == "head":
        raise UsageError(
            f"{train.path}: no row is labelled {', '.join(map(repr, absent))}: a head cannot learn it"
        )

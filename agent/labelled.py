"""Labelled tables as a fit needs them: checked, with class indices, and with the model's outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agent.errors import UsageError
from agent.items import Items
from agent.scorer import tokens_of
from agent.tables import read_table
from agent.token_columns import token_labels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from agent.config import ModelConfig
    from agent.tables import Table
    from detectors.contract import Outputs, Vector

# Below this the p-values, whose steps are 1 / (rows + 1), say nothing near 0.05.
LEAST_ROWS = 50


@dataclass(frozen=True)
class Labelled:
    """n items with their true class indices: `labels` (n,), or (t,) where each of their t tokens has one."""

    path: Path
    items: Items
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.items)

    def quality(self, outputs: Outputs) -> Vector:
        """(n,) how well the model with these outputs does on each item, in [0, 1].

        Classification: 1 where it is right, 0 where it is wrong. Tokens: the share labelled right.
        """
        return tokens_of(self.items, outputs).quality(self.labels)

    def accuracy(self, outputs: Outputs) -> float:
        """Mean quality of the items: a long text counts as much as a short one, however many tokens it has."""
        return float(self.quality(outputs).mean())


def read_labelled(path: Path, model: ModelConfig, features: int | None) -> Labelled:
    """The table with labels, and with the model's logits and features where they come with the tables.

    `features` is the width of the features that `feature_width` found. UsageError for a table that is too small
    or whose rows do not fit the model.
    """
    table = read_table(path)
    if len(table) < LEAST_ROWS:
        raise UsageError(f"{path}: {len(table)} rows are too few, at least {LEAST_ROWS} are needed")
    given, tokens = model.outputs == "table", model.task == "tokens"
    return Labelled(
        path=path,
        items=Items.of_table(table, logits=len(model.labels) if given else None, features=features, tokens=tokens),
        labels=true_classes(table, model.labels, tokens=tokens),
    )


def true_classes(table: Table, names: Sequence[str], *, tokens: bool) -> NDArray[np.intp]:
    """The class indices of a table's `label` column, one an item or, with `tokens`, one a token."""
    return token_labels(table, names) if tokens else table.labels(names)


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
        each = "token" if model.task == "tokens" else "row"
        raise UsageError(
            f"{train.path}: every {each} is {model.labels[seen.pop()]!r}: at least two labels are needed"
        )
    absent = [name for index, name in enumerate(model.labels) if index not in seen]
    if absent and model.outputs == "head":
        raise UsageError(
            f"{train.path}: no row is labelled {', '.join(map(repr, absent))}: a head cannot learn it"
        )

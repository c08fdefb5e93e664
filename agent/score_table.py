"""Scoring a whole table, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agent.errors import UsageError
from agent.items import Items

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from agent.reference import Reference
    from agent.scorer import Scored, Scorer
    from agent.tables import Table

# Rows scored at once: keeps their embeddings, not the whole table's, in memory.
PIECE = 4096


def score_table(
    scorer: Scorer, table: Table, on_progress: Callable[[int], None] | None = None
) -> dict[str, NDArray[np.generic]]:
    """The columns of `leadline score`: one value a row of the table, in its order.

    Where tokens are labelled, `prediction` holds a list of labels for each row.
    UsageError names the first row that the task model has no numbers for.
    """
    items = items_of(scorer.reference, table)
    pieces = []
    for start in range(0, len(items), PIECE):
        scored = scorer.score(items.slice(start, start + PIECE))
        if not scored.finite.all():
            row = start + int(scored.finite.argmin()) + 1
            raise UsageError(f"{table.path}: row {row}: the task model gives NaN or infinity")
        pieces.append(_columns(scorer, scored))
        if on_progress:
            on_progress(min(start + PIECE, len(items)))
    columns: dict[str, NDArray[np.generic]] = {"id": np.array(table.ids(), np.str_)}
    columns |= {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    if items.tokens is not None:
        labels = items.tokens.by_item(columns["prediction"])
        columns["prediction"] = np.fromiter((item.tolist() for item in labels), np.object_, len(labels))
    return columns


def items_of(reference: Reference, table: Table) -> Items:
    """The table's items with what this reference's task model needs of them. UsageError names what is missing."""
    given = reference.task.outputs == "table"
    return Items.of_table(
        table,
        logits=len(reference.labels) if given else None,
        features=reference.task.features if given and reference.task.features else None,
        tokens=reference.task.labels_tokens,
    )


def _columns(scorer: Scorer, scored: Scored) -> dict[str, NDArray[np.generic]]:
    return {
        "prediction": np.array(scorer.reference.labels, np.str_)[scored.predicted],
        "confidence": scored.confidence,
        **{f"score_{name}": values for name, values in scored.scores.items()},
        **{f"p_{name}": values for name, values in scored.p.items()},
        "depth": scored.scores["depth"],
        "ood": scorer.ood(scored),
    }

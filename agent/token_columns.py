"""The columns of a sequence labeller's table: `tokens`, and for each of them a row of `logits` and a `label`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from agent.errors import UsageError
from agent.tables import decoded
from agent.token_outputs import TokenLogits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agent.tables import Table


def token_logits(table: Table, classes: int) -> TokenLogits:
    """The `logits` of every token: lists of `classes` numbers, as many as the row has `tokens`.

    UsageError names the first row where it is otherwise, what it has and what was expected.
    """
    table.need("tokens", "logits")
    tokens = table.string_lists("tokens")
    # Cell by cell: the Python numbers of a whole table would take several times its size.
    cells = (decoded(cell.as_py()) for cell in table.data["logits"])
    return TokenLogits.of(
        [
            _row_logits(f"{table.path}: row {row}", cell, (len(names), classes))
            for row, (cell, names) in enumerate(zip(cells, tokens, strict=True), start=1)
        ]
    )


def _row_logits(where: str, cell: object, shape: tuple[int, int]) -> NDArray[np.float64]:
    tokens, classes = shape
    if not isinstance(cell, list) or len(cell) != tokens:
        raise UsageError(f"{where}: 'logits' has {_lists(cell)}, expected {tokens}, one for each token.")
    for token, numbers in enumerate(cell, start=1):
        if not isinstance(numbers, list) or len(numbers) != classes:
            found = f"{len(numbers)} numbers" if isinstance(numbers, list) else "no list"
            raise UsageError(f"{where}, token {token}: 'logits' has {found}, expected {classes}.")
    try:
        values = np.array(cell, np.float64).reshape(shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{where}: 'logits' must hold lists of numbers") from error
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise UsageError(
            f"{where}, token {int(np.argmin(finite)) + 1}: 'logits' holds NaN or infinity. "
            "Remove the row or mend it."
        )
    return values


def _lists(cell: object) -> str:
    if not cell:
        return "nothing"
    return f"{len(cell)} lists" if isinstance(cell, list) else "no list"


def token_labels(table: Table, names: Sequence[str]) -> NDArray[np.intp]:
    """(t,) class indices of the `label` column, a list for each row: one label a token, items one after another.

    UsageError names the first row with more or fewer labels than tokens, or with a label that is not in `names`.
    """
    table.need("tokens", "label")
    labels = table.string_lists("label")
    for row, (tokens, given) in enumerate(zip(table.string_lists("tokens"), labels, strict=True), start=1):
        if len(tokens) != len(given):
            raise UsageError(
                f"{table.path}: row {row}: 'label' has {len(given)} labels, "
                f"expected {len(tokens)}, one for each token."
            )
    index = {name: place for place, name in enumerate(names)}
    for row, given in enumerate(labels, start=1):
        unknown = [label for label in given if label not in index]
        if unknown:
            raise UsageError(
                f"{table.path}: row {row} has label {unknown[0]!r}, which the model does not know. "
                f"Known labels: {', '.join(names)}."
            )
    return np.fromiter((index[label] for label in chain.from_iterable(labels)), np.intp)

"""The head: the linear last layer of the task model, trained here or read from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from agent.errors import UsageError
from detectors.contract import Head

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# Inverse strengths of regularisation to choose from, by validation likelihood. Unit-length embeddings need little.
STRENGTHS = (0.1, 1.0, 10.0, 100.0)


def train_head(
    train: tuple[NDArray[np.floating], NDArray[np.intp]],
    validation: tuple[NDArray[np.floating], NDArray[np.intp]],
) -> Head:
    """A logistic head on (n, d) embeddings and class indices 0..C-1, each of which occurs in training.

    Deterministic. Of four strengths of L2 regularisation it keeps the likeliest on the validation rows.
    """
    heads = [_fitted(*train, strength) for strength in STRENGTHS]
    return min(heads, key=lambda head: _loss(head, *validation))


def _fitted(embedding: NDArray[np.floating], labels: NDArray[np.intp], strength: float) -> Head:
    # Imported here: the agent trains no head, and scikit-learn, which ships no types, would cost it 90 MB.
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    model = LogisticRegression(C=strength, max_iter=1000)
    model.fit(np.asarray(embedding, np.float64), labels)
    weight, bias = model.coef_, model.intercept_
    if len(weight) == 1:
        # Two classes come as one row, the log-odds; as two rows of half of it each, softmax gives the same.
        weight, bias = np.vstack([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return Head(weight, bias)


def _loss(head: Head, embedding: NDArray[np.floating], labels: NDArray[np.intp]) -> float:
    """Mean negative log-likelihood."""
    logits = head.logits(embedding)
    truth = logits[np.arange(len(labels)), labels]
    return float((np.logaddexp.reduce(logits, axis=1) - truth).mean())


def read_head(path: Path, classes: int) -> Head:
    """The `weight` (C, d) and `bias` (C,) of a safetensors file. UsageError says what is wrong with it."""
    try:
        arrays = load_file(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{path}: cannot be read as safetensors: {error}") from error
    if "weight" not in arrays or "bias" not in arrays:
        raise UsageError(f"{path}: expected arrays `weight` and `bias`, found: {', '.join(sorted(arrays))}")
    head = Head(arrays["weight"].astype(np.float64), arrays["bias"].astype(np.float64))
    if head.weight.ndim != 2 or len(head.weight) != classes or head.bias.shape != (classes,):  # noqa: PLR2004
        raise UsageError(
            f"{path}: for {classes} labels, weight must be ({classes}, features) and bias ({classes},); "
            f"found {head.weight.shape} and {head.bias.shape}"
        )
    if not (np.isfinite(head.weight).all() and np.isfinite(head.bias).all()):
        raise UsageError(f"{path}: weight or bias holds NaN or infinity")
    return head


def check_head(head: Head, features: NDArray[np.floating], logits: NDArray[np.floating], path: Path) -> None:
    """UsageError unless the head turns these features into these logits."""
    if head.weight.shape[1] != features.shape[1]:
        raise UsageError(
            f"{path}: the head takes {head.weight.shape[1]} features, the tables have {features.shape[1]}"
        )
    gap = float(np.abs(head.logits(features) - logits).max())
    if gap > TOLERANCE * max(1.0, float(np.abs(logits).max())):
        raise UsageError(
            f"{path}: weight @ features + bias differs from the tables' logits by up to {gap:.3g}: "
            "this is not the head that made them"
        )


# Features and logits may have been exported in float16.
TOLERANCE = 1e-2

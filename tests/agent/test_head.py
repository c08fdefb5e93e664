"""The head: trained to be likely, or read from a file and checked to be the right one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.special import softmax

from agent.errors import UsageError
from agent.head import check_head, read_head, train_head
from detectors.contract import Head


def world(classes: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit embeddings of overlapping classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    embedding = np.eye(classes, 6)[labels] + rng.normal(0, 0.6, (rows, 6))
    return embedding / np.linalg.norm(embedding, axis=1, keepdims=True), labels


@pytest.mark.parametrize("classes", [2, 3])
def test_a_trained_head_has_a_row_a_class(classes: int) -> None:
    """Two classes as well as more; better than chance on rows it has not seen, and calibrated by likelihood."""
    train, validation, test = (world(classes, 300, seed) for seed in range(3))
    head = train_head(train, validation)
    assert (head.weight.shape, head.bias.shape) == ((classes, 6), (classes,))
    posterior = softmax(head.logits(test[0]), axis=1)
    assert (posterior.argmax(axis=1) == test[1]).mean() > 0.8
    assert -np.log(posterior[np.arange(300), test[1]]).mean() < 0.6 * np.log(classes)


def test_training_is_deterministic() -> None:
    """The same rows give the same head, bit for bit."""
    once, again = (train_head(world(3, 120, 0), world(3, 60, 1)) for _ in range(2))
    assert (once.weight.tobytes(), once.bias.tobytes()) == (again.weight.tobytes(), again.bias.tobytes())


def test_noise_is_regularised_more_than_signal() -> None:
    """The strength is chosen by likelihood on the validation rows: labels at random leave a flat head."""
    train, validation = world(2, 80, 0), world(2, 80, 1)
    rng = np.random.default_rng(2)
    noise = train_head((train[0], rng.permutation(train[1])), (validation[0], rng.permutation(validation[1])))
    assert np.abs(noise.weight).max() < 0.5 * np.abs(train_head(train, validation).weight).max()


@pytest.fixture
def written(tmp_path: Path) -> Any:  # noqa: ANN401 - a function
    """Writes arrays to a safetensors file."""

    def write(**arrays: Any) -> Path:  # noqa: ANN401 - array-like
        path = tmp_path / "head.safetensors"
        save_file({name: np.asarray(value) for name, value in arrays.items()}, path)
        return path

    return write


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_head_is_read(written: Any, kind: type) -> None:  # noqa: ANN401
    """In any precision."""
    head = read_head(written(weight=np.ones((2, 3), kind), bias=np.zeros(2, kind)), 2)
    assert (head.weight.tolist(), head.bias.tolist()) == ([[1.0] * 3] * 2, [0.0, 0.0])
    assert head.weight.dtype == head.bias.dtype == np.float64


ONES, ZEROS = np.ones((2, 3)), np.zeros(2)
EXPECTED = "for 2 labels, weight must be (2, features) and bias (2,); found"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"w": ONES, "bias": ZEROS}, "expected arrays `weight` and `bias`, found: bias, w"),
        ({"weight": ONES}, "expected arrays `weight` and `bias`, found: weight"),
        ({"weight": np.ones((3, 3)), "bias": ZEROS}, f"{EXPECTED} (3, 3) and (2,)"),
        ({"weight": ONES, "bias": np.zeros(3)}, f"{EXPECTED} (2, 3) and (3,)"),
        ({"weight": np.ones(2), "bias": ZEROS}, f"{EXPECTED} (2,) and (2,)"),
        ({"weight": np.ones((2, 3, 1)), "bias": ZEROS}, f"{EXPECTED} (2, 3, 1) and (2,)"),
        ({"weight": ONES * np.nan, "bias": ZEROS}, "weight or bias holds NaN or infinity"),
        ({"weight": ONES, "bias": ZEROS - np.inf}, "weight or bias holds NaN or infinity"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(written: Any, arrays: dict[str, Any], message: str) -> None:  # noqa: ANN401
    """What is missing, or which shapes were found and which were expected."""
    path = written(**arrays)
    with pytest.raises(UsageError) as caught:
        read_head(path, 2)
    assert str(caught.value) == f"{path}: {message}"


def test_a_file_that_is_no_head_is_refused(tmp_path: Path) -> None:
    """Absent, or another kind of file."""
    path = tmp_path / "head.safetensors"
    with pytest.raises(UsageError) as caught:
        read_head(path, 2)
    assert str(caught.value) == f"{path}: no such file"
    for content in (b"", b"not safetensors, but long enough to look like some"):
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            read_head(path, 2)
        assert str(caught.value).startswith(f"{path}: cannot be read as safetensors: ")


HEAD = Head(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0.5, 0.0]))
FEATURES = np.array([[1.0, 1.0], [-3.0, 100.0]])


def test_the_right_head_passes() -> None:
    """Exactly, or as far as half precision goes."""
    logits = HEAD.logits(FEATURES)
    check_head(HEAD, FEATURES, logits, Path("head"))
    check_head(HEAD, FEATURES.astype(np.float16), logits.astype(np.float16), Path("head"))


DIFFERS = (
    "head: weight @ features + bias differs from the tables' logits by up to 202: "
    "this is not the head that made them"
)


@pytest.mark.parametrize(
    ("features", "logits", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 2)), "head: the head takes 2 features, the tables have 3"),
        (
            FEATURES,
            HEAD.logits(FEATURES)[:, ::-1],
            DIFFERS,
        ),
    ],
)
def test_another_head_is_refused(features: np.ndarray, logits: np.ndarray, message: str) -> None:
    """A head that takes other features, or makes other logits of them."""
    with pytest.raises(UsageError) as caught:
        check_head(HEAD, features, logits, Path("head"))
    assert str(caught.value) == message

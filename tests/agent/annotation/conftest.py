"""A batch on disk, with and without texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.annotation.files import write
from tests.agent.annotation.annotation_bench import config_of, made_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from agent.annotation.draw import Made
    from agent.records import Record
    from agent.reference import Reference
    from agent.scorer import Scored


@pytest.fixture
def made(reference: Reference, score: Callable[[Sequence[Record]], Scored], tmp_path: Path) -> Made:
    """Sixty items of three hundred, with their texts."""
    texts, window = texts_of(reference, score, tmp_path)
    return made_of(reference, window, config_of(tmp_path), texts)


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    """Where batches go; not there yet."""
    return tmp_path / "annotation"


@pytest.fixture
def written(made: Made, batches: Path) -> Path:
    """The directory of the batch."""
    return write(batches, made)

"""The facts as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agent.cli.output import write_facts

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    """JSON has no NaN and no infinity; a folder that is missing is made."""
    path = tmp_path / "new" / "facts.json"
    write_facts(path, {"q": float("nan"), "windows": [{"depth": float("inf")}, (0.5, None)]})

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    read = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert read == {"q": None, "windows": [{"depth": None}, [0.5, None]]}

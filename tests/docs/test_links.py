"""The documents: what they point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    """No link of a document is dead."""
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    dead = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert dead == []


def test_every_reason_is_explained() -> None:
    """docs/RECORDS.md says of each reason for discarding a record what to do."""
    from agent.reasons import Reason  # noqa: PLC0415 - only this test needs the agent

    text = (ROOT / "docs" / "RECORDS.md").read_text(encoding="utf-8")
    assert [reason.value for reason in Reason if f"`{reason.value}`" not in text] == []

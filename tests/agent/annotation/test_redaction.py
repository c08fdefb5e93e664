"""The user's redaction, named in the configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent.annotation.place import look_at
from agent.annotation.redaction import redaction_of
from agent.errors import UsageError
from tests.agent.annotation.annotation_bench import config_of


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `own_rules` in the environment."""
    (tmp_path / "own_rules.py").write_text(
        "NUMBER = 3\n\ndef hide(text):\n    return text.replace('secret', '***')\n", encoding="utf-8"
    )
    (tmp_path / "broken_rules.py").write_text("raise RuntimeError('at import')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


@pytest.mark.usefixtures("module")
def test_the_named_function_is_the_redaction() -> None:
    """`package.module:function` is imported; without a name a text stays as it is."""
    assert redaction_of("own_rules:hide")("a secret") == "a ***"
    assert redaction_of(None)("a secret") == "a secret"


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("no_such_module:hide", "annotation.redact: no_such_module:hide: the module 'no_such_module' cannot be"),
        ("broken_rules:hide", "(RuntimeError). Install it where Leadline runs, or correct the name."),
        ("own_rules:hidden", "the module 'own_rules' has no 'hidden'. Correct the name."),
        ("own_rules:NUMBER", "annotation.redact: own_rules:NUMBER is not a function."),
    ],
)
def test_a_name_that_leads_nowhere_is_an_error(name: str, complaint: str) -> None:
    """The error says which name, what is wrong with it, and what to do."""
    with pytest.raises(UsageError) as raised:
        redaction_of(name)
    assert complaint in str(raised.value)


@pytest.mark.usefixtures("module")
def test_a_check_says_what_will_be_kept(tmp_path: Path) -> None:
    """Where batches go, whether with texts, redacted by what, for how long; nothing is made by asking."""
    there = tmp_path / "not" / "yet"
    assert look_at(config_of(there)) == f"batches go to {there}, without texts"
    told = look_at(config_of(there, texts=True, redact="own_rules:hide"))
    assert told == f"batches go to {there}, with texts, after own_rules:hide, for 7 days"
    assert "there is no `redact`" in look_at(config_of(there, texts=True))
    assert not there.parent.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"own_rules.py", "broken_rules.py"}


@pytest.mark.usefixtures("module")
def test_a_check_finds_what_a_start_would_end_with(tmp_path: Path) -> None:
    """A path that is no directory, or a redaction that cannot be imported."""
    with pytest.raises(UsageError, match=r"own_rules\.py is a file"):
        look_at(config_of(tmp_path / "own_rules.py" / "batches"))
    with pytest.raises(
        UsageError, match="/proc cannot be written to"
    ):  # not even by root, whom permissions allow it
        look_at(config_of(Path("/proc/annotation")))
    with pytest.raises(UsageError, match="no_such"):
        look_at(config_of(tmp_path, redact="no_such:function"))

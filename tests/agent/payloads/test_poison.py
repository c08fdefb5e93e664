"""The poison corpus against every format: parts or a named reason, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.payloads.contract import Kind, Part
from agent.reasons import Reason, RejectedError
from agent.records import Expected, from_fields
from tests.agent.payloads.examples import ARRIVAL, LABELS, decoded, formats_used
from tests.agent.payloads.poison import MESSAGES, POISON, Poison

if TYPE_CHECKING:
    from agent.payloads.formats import Format

EXPECTED = Expected("sentiment", frozenset(LABELS))
FORMS = {form.name: form for form in formats_used()}


def reasons(poison: Poison, form: Format) -> list[Reason]:
    """Why the message, or anything that came of it, is rejected."""
    try:
        made = decoded(poison.message, form)
    except RejectedError as error:
        return [error.reason]
    found = [each for each in made if isinstance(each, Reason)]
    for part in made:
        if isinstance(part, Part) and part.kind in {Kind.RECORD, Kind.REQUEST}:
            try:
                from_fields(part.fields, EXPECTED, poison.message.origin, ARRIVAL)
            except RejectedError as error:
                found.append(error.reason)
    return found


@pytest.mark.parametrize("poison", POISON, ids=lambda poison: poison.name)
def test_poison_has_its_reason(poison: Poison) -> None:
    """In its own format, each message is rejected for the one reason that its table names, or is taken."""
    assert set(reasons(poison, FORMS[poison.format])) == ({poison.reason} if poison.reason else set())


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_poison_breaks_no_format(form: Format) -> None:
    """In every format, each message gives parts and reasons only."""
    for poison in POISON:
        assert all(isinstance(each, Reason) for each in reasons(poison, form))


def test_the_corpus_is_wide() -> None:
    """It holds well over forty messages, each under its own name."""
    assert len({name for name, _ in MESSAGES}) == len(POISON) > 100

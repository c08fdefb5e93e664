"""However an episode ends, there are words for it."""

from __future__ import annotations

from agent.alert_report import Outcome
from agent.cli.windows import OVER
from exporters.episodes.words import ENDINGS
from exporters.status.asked import OUTCOMES


def test_every_outcome_is_put_into_words() -> None:
    """In the terminal, to receivers, and on the status page."""
    over = set(Outcome) - {Outcome.OPEN}
    assert set(OVER) == over
    assert set(ENDINGS) == over
    assert set(OUTCOMES) == set(Outcome)


def test_points_that_you_accept_may_be_lost() -> None:
    """What labels ended is called no more than you accept, never no harm, nor accuracy above a limit."""
    for told in (OVER, ENDINGS, OUTCOMES):
        words = told[Outcome.HARMLESS]
        assert "you accept" in words
        assert not any(each in words for each in ("harm", "hurt", "limit"))

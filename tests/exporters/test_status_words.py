"""What the status page says, in each state an agent can be in."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agent.alert_report import Alerts, Episode, Kind, Notified, Outcome, Realised, SliceDecision
from agent.interval import Interval
from agent.report import Estimation, SourceStatus, Upkeep, WindowEstimate
from exporters.status.facts import State, status_of
from exporters.status.format import about, lasting, moment
from exporters.status.health import facts, worries
from exporters.status.words import FIRST, Answer, answer, sentence
from tests.exporters.plausible import BEGAN, END, EPISODE, NOW, calm, drifted, drop, made

if TYPE_CHECKING:
    from agent.report import Report

SEEN = SliceDecision("de", 8.0, 4.9, shift_seen=True, since=BEGAN)
UNSEEN = SliceDecision("de", 0.6, 4.9, shift_seen=False)
ASKED = Episode(EPISODE, "de", Kind.DROP, BEGAN, BEGAN + 1800, drop(0.121, 0.05), 2_412, 310)
UNKNOWN = replace(ASKED, kind=Kind.UNKNOWN, drop=Interval(), outside=("pad", "js"))
OVER = replace(ASKED, resolved=NOW - 3600, outcome=Outcome.HARMLESS)
NOTHING = "the source has given it nothing to read: no partition is free, or the group is still forming"
DE = "in slice de, since 14:20 UTC (2.2 h ago)"
OPEN = "6 points (3 to 9)"
LITTLE, MUCH, UNSURE = drop(0.01, 0.02), drop(0.121, 0.05), drop(0.04, 0.05)


def one(
    decision: SliceDecision,
    found: Interval | str = LITTLE,
    *told: Episode,
    inside: bool = True,
    realised: tuple[Realised, ...] = (),
) -> Report:
    """A Report of slice `de` alone: what is decided, what is estimated or why nothing is, its episodes."""
    report = drifted()
    estimate = replace(
        made("de", "long", 0, 0, 2_412).estimate,
        drop=Interval() if isinstance(found, str) else found,
        reason=found if isinstance(found, str) else "",
        inside_domains=inside,
        outside=() if inside else ("pad",),
    )
    return replace(
        report,
        windows=tuple(each for each in report.windows if each.slice == "de"),
        estimation=Estimation((WindowEstimate("de", "long", END, END, estimate),)),
        alerts=Alerts(limit=0.05, slices=(decision,), episodes=told, realised=realised),
    )


def said(report: Report, later: float = 0.0) -> Answer:
    """What the page says of this Report, so many seconds later."""
    return answer(status_of(report, NOW + later, 60.0))


def back(labelled: int, found: Interval) -> tuple[Realised, ...]:
    """So many labels of the batch came back, and say this."""
    return (Realised("de", EPISODE, 330, labelled, found, found, MUCH),)


@pytest.mark.parametrize(
    ("report", "mood", "headline"),
    [
        (one(UNSEEN), "fine", "No sign of harm."),
        (
            one(SEEN),
            "shift",
            f"Shift seen {DE}, but by the estimate no more than the 5 points you accept are lost.",
        ),
        (
            one(SEEN, UNSURE),
            "shift",
            f"Shift seen {DE}; whether it costs accuracy is not certain: about 4 points (-1 to 9).",
        ),
        (
            one(SEEN, LITTLE, inside=False),
            "shift",
            f"Shift seen {DE}; no label has shown yet what such items cost.",
        ),
        (
            one(SEEN, "12 items are too few, at least 30 are needed"),
            "shift",
            f"Shift seen {DE}; no estimate of what it costs: 12 items are too few, at least 30 are needed.",
        ),
        (
            one(SEEN, LITTLE, OVER, realised=back(330, LITTLE)),
            "shift",
            f"Shift seen {DE}, but labels say that no more than the 5 points you accept are lost.",
        ),
        (
            one(UNSEEN, MUCH),
            "suspected",
            "Accuracy may be lost: about 12 points (7 to 17) in slice de, but no shift is certain yet.",
        ),
        (
            one(SEEN, MUCH, ASKED),
            "lost",
            f"Accuracy is probably lost: about 12 points (7 to 17) {DE}.",
        ),
        (
            one(SEEN, MUCH, ASKED, realised=back(330, drop(0.11, 0.03))),
            "lost",
            f"Accuracy is lost: 11 points (8 to 14) by 330 labels {DE}.",
        ),
        (
            one(SEEN, MUCH, ASKED, realised=back(60, drop(0.31, 0.13))),
            "lost",
            f"Accuracy is probably lost {DE}: 60 of 330 labels say 31 points (18 to 44), too few to be sure.",
        ),
        (
            one(SEEN, LITTLE, UNKNOWN, inside=False, realised=back(330, drop(0.06, 0.03))),
            "cannot_tell",
            f"Nobody can tell yet what the shift {DE}, costs: 330 of 330 labels say {OPEN}, which leaves it open.",
        ),
        (
            one(SEEN, LITTLE, UNKNOWN, inside=False, realised=back(330, drop(0.11, 0.03))),
            "lost",
            f"Accuracy is lost: 11 points (8 to 14) by 330 labels {DE}.",
        ),
        (
            one(SEEN, "the model predicts 'a' for every item", ASKED),
            "lost",
            f"Accuracy is probably lost: about 12 points (7 to 17) {DE}.",
        ),
        (
            one(SEEN, LITTLE, UNKNOWN, inside=False),
            "cannot_tell",
            f"Nobody can tell what the shift {DE}, costs; 310 labels are asked for.",
        ),
        (
            one(UNSEEN, "12 items are too few, at least 30 are needed"),
            "no_estimate",
            "No estimate in slice de: 12 items are too few, at least 30 are needed.",
        ),
    ],
)
def test_each_state_has_its_sentence(report: Report, mood: str, headline: str) -> None:
    """First the answer: whether it hurts, how much, where and since when, or why nobody knows."""
    told = said(report)
    assert (told.mood, told.headline) == (mood, headline)


def test_the_estimate_is_told_with_what_it_is_worth() -> None:
    """The meaning names the estimate, how sure it is and the limit, and warns of items unlike any labelled one."""
    assert said(one(SEEN, MUCH, ASKED)).meaning == (
        "Estimated without labels: 12 points (7 to 17) lost (90% sure); you accept 5."
    )
    assert "Do not lean on it: these items are unlike every labelled domain (pad)." in (
        said(one(SEEN, LITTLE, UNKNOWN, inside=False)).meaning
    )


def test_labels_stand_beside_the_estimate() -> None:
    """What came back is told with how many, and with what had been estimated without it."""
    told = said(one(SEEN, MUCH, ASKED, realised=back(118, drop(0.09, 0.06)))).meaning
    assert told.endswith(
        "118 of 330 labels came back: 9 points (3 to 15) lost, 12.1 had been estimated when the batch was drawn; "
        "both together: 9.0 (3.0 to 15.0)."
    )
    few = said(one(SEEN, MUCH, ASKED, realised=back(2, Interval()))).meaning
    assert "2 of 330 labels came back: nothing can be said from them yet." in few


def test_what_to_do_depends_on_whether_there_is_a_batch() -> None:
    """With a batch it is to be labelled; without one, so many items of the slice; with no episode, nothing."""
    report = drifted()
    unlabelled = replace(report, alerts=replace(report.alerts, realised=()))
    assert "If not, label the 330 items of the annotation batch below" in said(unlabelled).todo
    assert "If not, label about 310 items of this slice" in said(one(SEEN, MUCH, ASKED)).todo
    assert said(one(SEEN, MUCH, replace(ASKED, needed=0))).todo.endswith("If so, undo or mend it.")
    assert said(calm()).todo == ""


@pytest.mark.parametrize(
    ("labelled", "found", "todo"),
    [
        (
            330,
            drop(0.11, 0.03),
            "Labels confirm it: fall back, or retrain; `leadline annotate import … --out` makes",
        ),
        (118, drop(0.11, 0.05), f"{FIRST} If not, import 212 more labels of the annotation batch below."),
        (
            330,
            drop(0.06, 0.03),
            f"{FIRST} If not, `leadline annotate import` says how many labels beyond this batch",
        ),
    ],
)
def test_what_to_do_follows_what_labels_say(labelled: int, found: Interval, todo: str) -> None:
    """Labels that confirm the loss ask for a remedy, and those that leave it open for the rest of the batch."""
    report = drifted()
    alerts = replace(report.alerts, realised=back(labelled, found))
    assert said(replace(report, alerts=alerts)).todo.startswith(todo)


def test_labels_that_find_no_loss_leave_nothing_to_do() -> None:
    """From the moment they say so, even before the agent has ended the episode."""
    report = drifted()
    told = said(replace(report, alerts=replace(report.alerts, realised=back(330, LITTLE))))
    assert (told.mood, told.todo) == ("shift", "")
    assert told.headline == f"Shift seen {DE}, but labels say that no more than the 5 points you accept are lost."


def test_the_headline_shows_labels_and_predictions_together() -> None:
    """Not the labels alone: `combined` is what the answer rests on, here and in `leadline annotate import`."""
    realised = Realised("de", EPISODE, 330, 330, drop(0.31, 0.12), drop(0.28, 0.1))
    assert said(one(SEEN, MUCH, ASKED, realised=(realised,))).headline == (
        f"Accuracy is lost: 28 points (18 to 38) by 330 labels {DE}."
    )


@pytest.mark.parametrize("decision", [SEEN, UNSEEN])
@pytest.mark.parametrize("found", [LITTLE, MUCH, "too few items"])
def test_labels_of_a_limit_that_was_lowered_say_nothing_of_harm(
    decision: SliceDecision, found: Interval | str
) -> None:
    """An episode that labels once ended is called harmless only while they say so of the limit of today."""
    report = one(decision, found, OVER, realised=back(330, drop(0.03, 0.005)))
    told = [
        said(replace(report, alerts=replace(report.alerts, limit=limit))) for limit in (0.03, 0.01, float("nan"))
    ]
    assert not [each for each in told if re.search(r"no more than|no harm", each.headline)]
    confirmed = told[1].headline.startswith("Accuracy is lost: 3.0 points (2.5 to 3.5) by 330 labels")
    assert confirmed == (decision is SEEN)


def test_a_calm_day_names_its_highest_estimate() -> None:
    """Without any shift the answer is short, and says on what it rests."""
    told = said(calm())
    assert (told.label, told.headline) == ("Fine", "No sign of harm.")
    assert told.meaning.startswith("No shift is seen. Estimated without labels: 0 points (-2 to 3) lost")
    assert told.meaning.endswith("The highest estimate is that of slice de.")


def test_the_other_slices_that_are_not_fine_are_named() -> None:
    """The worst slice makes the headline; the others follow it, by state, without those that are fine."""
    report = drifted()
    shifted = replace(report.alerts.slices[2], shift_seen=True)
    alerts = replace(report.alerts, slices=(*report.alerts.slices[:2], shifted))
    assert said(replace(report, alerts=alerts)).meaning.endswith("Besides: Shift only: fr.")


def test_slices_without_an_estimate_do_not_hide_that_the_others_are_fine() -> None:
    """A tiny slice that nothing can be said of does not make the headline where others are fine."""
    report = calm()
    rest = tuple(each for each in report.estimation.estimates if each.slice != "fr")
    told = said(replace(report, estimation=Estimation(rest)))
    assert (told.mood, told.headline) == ("fine", "No sign of harm in 2 of 3 slices.")
    assert told.meaning == "There is no estimate of fr: no window of it was estimated yet."


@pytest.mark.parametrize(
    ("source", "headline", "todo"),
    [
        (
            SourceStatus(stopped="schema_change"),
            "Not reading: so many records could not be used that their sender must have changed its format.",
            "Look at the dead letters, then mend the sender or the agent's configuration and restart the agent.",
        ),
        (
            SourceStatus(assigned=False),
            f"Not reading: {NOTHING}.",
            "",
        ),
    ],
)
def test_an_agent_that_learns_nothing_says_so_first(source: SourceStatus, headline: str, todo: str) -> None:
    """What is known from before comes after that, and what to do is about the agent."""
    told = said(replace(drifted(), source=source))
    assert (told.mood, told.headline, told.todo) == ("blind", headline, todo)
    assert told.meaning.startswith("Known before that: Accuracy is probably lost in slice de, since 14:20 UTC")


def test_a_loop_that_stands_still_is_told() -> None:
    """A heartbeat older than /livez allows is the headline, however good the last news."""
    assert said(calm(), later=90).headline == ("Not reading: the loop has stood still for 90 s, allowed are 60 s.")


def test_before_the_first_window_there_is_nothing_to_say() -> None:
    """Without slices the answer says when there will be one."""
    report = replace(calm(), windows=(), estimation=Estimation(), alerts=Alerts(limit=0.05))
    assert said(report).headline == "Nothing to say yet: no window has ended."


def test_without_a_limit_any_certain_drop_is_suspected() -> None:
    """An agent that decides nothing claims no episode, and does not call a drop harmless either."""
    report = replace(drifted(), alerts=Alerts())
    assert said(report).mood == "suspected"
    assert said(replace(calm(), alerts=Alerts())).meaning.startswith("Nothing here decides about shifts.")


def test_the_only_slice_needs_no_name_if_it_was_given_none() -> None:
    """Where records are not sliced, the sentences do not speak of slices."""
    report = one(replace(UNSEEN, slice="default"))
    renamed = replace(
        report,
        windows=(),
        estimation=Estimation(tuple(replace(each, slice="default") for each in report.estimation.estimates)),
    )
    status = status_of(renamed, NOW, 60.0)
    assert sentence(status.slices[0], NOW, alone=True) == "No sign of harm."
    assert sentence(status.slices[0], NOW) == "No sign of harm in slice default."


def test_a_replay_counts_from_its_newest_records() -> None:
    """Where the records are of long ago, "2 h ago" would be wrong and "320 days ago" of no use."""
    report = replace(one(SEEN, MUCH, ASKED), time=NOW + 320 * 86_400, heartbeat=NOW + 320 * 86_400)
    assert said(report, later=320 * 86_400).headline == (
        "Accuracy is probably lost: about 12 points (7 to 17) in slice de, "
        "since 2026-11-21 14:20 UTC (2.2 h before the newest records)."
    )


def test_slices_come_the_worst_first() -> None:
    """By state, then by how much is probably lost."""
    assert [each.name for each in status_of(drifted(), NOW, 60.0).slices] == ["de", "fr", "en"]
    assert status_of(drifted(), NOW, 60.0).slices[0].state == State.LOST


def test_the_agents_own_troubles_are_sentences() -> None:
    """Each thing to look into is told once, with its count; an agent that is well has none."""
    assert worries(calm()) == ()
    report = replace(
        calm(),
        upkeep=Upkeep(NOW - 7200, 3, {"corrupt": 1, "other_owner": 2}, reload_ok=False),
        estimation=Estimation(failures={"memory": 0, "error": 2}, running_since=NOW - 900),
        alerts=Alerts(batch_failures=1),
        notified={"grafana": Notified(failed=7, waiting=2), "alertmanager": Notified(dropped=1)},
    )
    assert worries(report) == (
        "3 saves of the state failed since the start; the last good one: 2 h ago.",
        "1 state could not be used and was put aside (corrupt 1).",
        "The newest configuration was refused: the one before it is in use. The log says why.",
        "2 estimates broke since the start (error 2). The log says why.",
        "An estimate has been running for 15 min: it hangs.",
        "Writing an annotation batch failed 1 time since the start; it is tried again.",
        "2 messages to grafana not yet sent; 7 tries failed since the start.",
        "1 message to alertmanager dropped: too many waited.",
    )
    assert dict(facts(report))["Configuration"] == "the newest was refused"


def test_a_planned_new_reference_is_no_trouble() -> None:
    """A state that was put aside because run.yaml names another reference asks nobody to look."""
    assert worries(replace(calm(), upkeep=Upkeep(quarantined={"corrupt": 0, "other_owner": 1}))) == ()


def test_what_is_not_known_is_never_a_number() -> None:
    """NaN and infinity anywhere become words, in times too."""
    assert about(Interval()) == "n/a points (n/a to n/a)"
    assert [moment(time, NOW) for time in (float("nan"), float("inf"), 1e300, -1e300)] == ["n/a"] * 4
    assert lasting(float("inf")) == "n/a"

"""The decision: what pages, what does not, and that one change is one episode."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from agent.alert_report import Episode, Kind, Outcome
from agent.decision import HISTORY, RECENT_EPISODES, Decision
from agent.interval import UNKNOWN, Interval
from agent.panes import P_EDGES, Pane, Tally
from agent.report import DropEstimate, WindowEstimate
from agent.sample import Sample
from agent.watch import MONTH, Rules
from detectors.strata import labels_needed

PANE, SHORT, LONG = 600.0, 1200.0, 3600.0
RULES = Rules(max_drop=0.05, false_alarms=1.0, precision=0.03, pane=PANE, short=SHORT, long=LONG)
ROWS = (1000, 1000)
NOW = 99.0

HARM = DropEstimate(500, 0.9, "", Interval(0.11, 0.07, 0.15), Interval(0.75, 0.7, 0.8), inside_domains=True)
FINE = DropEstimate(500, 0.9, "", Interval(0.01, -0.02, 0.04), Interval(0.88, 0.84, 0.9), inside_domains=True)
DOUBTFUL = replace(FINE, drop=Interval(0.07, 0.03, 0.11))
OUTSIDE = replace(HARM, inside_domains=False, outside=("pad",))
REFUSED = DropEstimate(3, 0.9, "3 items are too few, at least 100 are needed")


def pane(name: str, start: float, flagged: float, items: int = 200) -> Pane:
    """A pane in which this share of the items has p <= 0.01, and the others are spread evenly above."""
    counts = np.zeros(len(P_EDGES), np.int64)
    counts[2] = round(flagged * items)
    rest = items - counts[2]
    counts[5:] = rest // 10
    counts[-1] += rest - 10 * (rest // 10)
    nothing = np.zeros(2, np.int64)
    tally = Tally(items, 0, nothing, np.stack([counts] * 2), nothing, nothing, 0, 0, 0, nothing)
    return Pane(name, int(start), tally, Sample.of([], np.empty((0, 1)), None))


# What one detector counts in a pane of a shift.
TALL = pane("a", 0, 0.4).tally.p_counts


@dataclass
class Watched:
    """A decision that is fed pane by pane, each followed by the estimates of the windows that end with it."""

    decision: Decision = field(default_factory=lambda: Decision(RULES, "a model", ROWS))
    start: float = 0.0

    def feed(self, flagged: float, estimate: DropEstimate, panes: int = 1, name: str = "a") -> list[Episode]:
        """What began or ended on the way."""
        for _ in range(panes):
            self.decision.sealed([pane(name, self.start, flagged)], NOW)
            self.start += PANE
            for window in ("long", "short"):
                self.estimate(estimate, window, name)
        return self.decision.take_changed()

    def estimate(self, estimate: DropEstimate, window: str, name: str = "a") -> None:
        """One estimate of a window that ends now."""
        self.decision.estimated(WindowEstimate(name, window, self.start, NOW, estimate), NOW)

    @property
    def seen(self) -> bool:
        """Whether a shift is seen in the slice."""
        (found,) = self.decision.alerts().slices
        return found.shift_seen


def shifted(estimate: DropEstimate = FINE) -> Watched:
    """A slice whose shift has been seen, with this estimate."""
    watched = Watched()
    watched.feed(0.0, FINE, panes=10)
    watched.feed(0.4, estimate, panes=3)
    return watched


def test_a_shift_that_hurts_begins_one_episode() -> None:
    """It names the slice, when the change began, the drop, and the labels that would tell; and is told once."""
    watched = Watched()
    assert watched.feed(0.0, FINE, panes=10) == []
    (episode,) = watched.feed(0.4, HARM, panes=3)
    assert (episode.slice, episode.kind, episode.open, episode.outcome) == ("a", Kind.DROP, True, Outcome.OPEN)
    assert (episode.since, episode.fired, episode.drop, episode.items) == (10 * PANE, NOW, HARM.drop, 500)
    assert episode.needed == labels_needed((0.7, 0.8), RULES.precision)
    assert watched.feed(0.4, HARM, panes=50) == []
    (told,) = watched.decision.alerts().slices
    assert (told.annotate, told.needed, told.shift_seen, told.since) == (True, episode.needed, True, 10 * PANE)
    assert told.evidence >= told.threshold


def test_a_shift_that_does_not_hurt_pages_nobody() -> None:
    """It is seen, and that is all: neither a low estimate nor one that may be either begins an episode."""
    watched = shifted()
    assert watched.seen
    assert watched.feed(0.4, FINE, panes=100) + watched.feed(0.4, DOUBTFUL, panes=100) == []


def test_harm_without_a_certain_shift_pages_nobody() -> None:
    """The budget of false alarms holds for pages because each of them needs the evidence."""
    watched = Watched()
    assert watched.feed(0.0, HARM, panes=200) == []
    assert not watched.seen


@pytest.mark.parametrize("window", ["long", "short"])
def test_both_windows_must_hurt(window: str) -> None:
    """One window that is fine, or that cannot be estimated, keeps an episode from beginning."""
    for other in (FINE, REFUSED):
        watched = shifted()
        watched.estimate(HARM, window)
        watched.estimate(other, "short" if window == "long" else "long")
        assert watched.decision.take_changed() == []
        watched.estimate(HARM, "short" if window == "long" else "long")
        assert len(watched.decision.take_changed()) == 1


def test_a_certain_shift_outside_the_fitted_domains_asks_for_labels() -> None:
    """Nobody can tell there what is lost, however low or high the estimate is."""
    for estimate in (OUTSIDE, replace(FINE, inside_domains=False)):
        (episode,) = shifted(FINE).feed(0.4, estimate)
        assert episode.kind is Kind.UNKNOWN
        assert episode.outside == estimate.outside
    watched = shifted()
    watched.estimate(OUTSIDE, "short")
    watched.estimate(HARM, "long")
    (episode,) = watched.decision.take_changed()
    assert (episode.kind, episode.outside) == (Kind.UNKNOWN, OUTSIDE.outside)


def test_an_interval_too_wide_to_tell_asks_for_labels() -> None:
    """Where it reaches further than the limit to each side, an estimate above the limit is a question."""
    wide = replace(HARM, drop=Interval(0.29, -0.05, 0.42))
    (episode,) = shifted().feed(0.4, wide)
    assert (episode.kind, episode.outside) == (Kind.UNKNOWN, ())
    assert shifted().feed(0.4, replace(HARM, drop=Interval(0.04, -0.3, 0.4))) == []
    certain = replace(HARM, drop=Interval(0.4, 0.2, 0.6))
    assert [each.kind for each in shifted().feed(0.4, certain)] == [Kind.DROP]


def test_an_open_question_becomes_certain_harm() -> None:
    """It is the same episode: its kind and its drop are now those of the certain estimate, which is told."""
    watched = shifted()
    (asked,) = watched.feed(0.4, OUTSIDE)
    assert watched.feed(0.4, DOUBTFUL) == []
    assert watched.decision.alerts().open == (asked,)
    (known,) = watched.feed(0.4, HARM)
    assert watched.decision.alerts().open == (known,)
    assert (known.id, known.kind, known.drop, known.outside) == (asked.id, Kind.DROP, HARM.drop, ())
    assert watched.feed(0.4, OUTSIDE) == []
    assert watched.decision.alerts().open == (known,)


@pytest.mark.parametrize(
    "estimate",
    [
        REFUSED,
        replace(HARM, drop=UNKNOWN),
        replace(HARM, reason="the model predicts 'good' for every item"),
        replace(HARM, drop=Interval(float("inf"), float("nan"), float("inf"))),
    ],
)
def test_what_says_nothing_never_fires(estimate: DropEstimate) -> None:
    """Tiny, one-class and NaN windows begin no episode, and end none."""
    assert shifted().feed(0.4, estimate, panes=20) == []
    watched = shifted(HARM)
    assert watched.feed(0.4, estimate, panes=20) == []


def test_an_episode_ends_when_the_estimate_is_well_again_in_both_windows() -> None:
    """An estimate between the bounds of beginning and end changes nothing; the shift itself may go on."""
    watched = shifted(HARM)
    assert watched.feed(0.4, DOUBTFUL, panes=5) == []
    watched.estimate(FINE, "short")
    assert watched.decision.take_changed() == []
    watched.estimate(FINE, "long")
    (over,) = watched.decision.take_changed()
    assert (over.outcome, over.resolved, over.open) == (Outcome.RECOVERED, NOW, False)
    assert watched.seen
    (again,) = watched.feed(0.4, HARM)
    assert again.since == over.since
    assert again.id != over.id


def test_an_episode_ends_when_the_traffic_is_like_the_source_again() -> None:
    """Whatever the long window still says; and a shift that comes back begins another one."""
    watched = shifted(HARM)
    (over,) = watched.feed(0.0, HARM, panes=20)
    assert over.outcome is Outcome.RETURNED
    assert not watched.seen
    (again,) = watched.feed(0.4, HARM, panes=3)
    assert again.id != over.id


def test_estimates_that_hover_begin_one_episode() -> None:
    """A lower bound that crosses the limit again and again neither ends the episode nor begins a second one."""
    watched = shifted()
    begun = [episode for _ in range(30) for each in (HARM, DOUBTFUL) for episode in watched.feed(0.4, each)]
    assert len(begun) == 1


def test_a_slice_that_fell_silent_is_forgotten() -> None:
    """After the long window without traffic its episode ends, and it is no longer watched."""
    watched = shifted(HARM)
    watched.decision.passed(int(watched.start + LONG - PANE), NOW)
    assert watched.decision.take_changed() == []
    watched.decision.passed(int(watched.start + LONG), NOW)
    (over,) = watched.decision.take_changed()
    assert over.outcome is Outcome.SILENT
    assert watched.decision.alerts().slices == ()


def test_labels_that_acquit_are_believed_while_the_shift_lasts() -> None:
    """The same shift is not asked about again; another one after it is."""
    watched = shifted(HARM)
    (episode,) = watched.decision.alerts().open
    watched.decision.harmless(episode.id, NOW)
    (over,) = watched.decision.take_changed()
    assert over.outcome is Outcome.HARMLESS
    watched.decision.harmless(episode.id, NOW)
    assert watched.feed(0.4, HARM, panes=30) == []
    watched.feed(0.0, FINE, panes=20)
    assert not watched.seen
    assert len(watched.feed(0.4, HARM, panes=3)) == 1


def test_what_is_decided_again_has_the_name_it_had() -> None:
    """Gone back to before an episode, as after a crash, the same panes lead to an episode of the same id."""
    watched = Watched()
    watched.feed(0.0, FINE, panes=10)
    before, start = watched.decision.decided, watched.start
    (first,) = watched.feed(0.4, HARM, panes=3)
    again = Watched(Decision(RULES, "a model", ROWS), start)
    again.decision.restore(before)
    (second,) = again.feed(0.4, HARM, panes=3)
    assert replace(second, resolved=0) == replace(first, resolved=0)
    other = Watched(Decision(RULES, "another model", ROWS), start)
    other.decision.restore(before)
    assert other.feed(0.4, HARM, panes=3)[0].id != first.id


def test_a_restart_in_the_middle_of_an_episode_neither_ends_nor_repeats_it() -> None:
    """What was decided comes back with the state; estimates come later, and find the episode open."""
    watched = shifted(HARM)
    again = Watched(Decision(RULES, "a model", ROWS), watched.start)
    again.decision.restore(watched.decision.decided)
    assert again.seen
    assert again.feed(0.4, HARM, panes=5) == []
    assert [each.id for each in again.decision.alerts().open] == [
        each.id for each in watched.decision.alerts().open
    ]


def test_evidence_of_another_version_keeps_what_was_seen() -> None:
    """Bets of another shape are begun anew, just where a shift is seen; an episode does not end by an upgrade."""
    watched = shifted(HARM)
    other = Decision(RULES, "a model", ROWS[:1])
    other.restore(watched.decision.decided)
    (before,), (after,) = watched.decision.alerts().slices, other.alerts().slices
    assert (after.shift_seen, after.since) == (True, before.since)
    assert after.evidence == pytest.approx(after.threshold)
    one = replace(pane("a", watched.start, 0.4), tally=replace(pane("a", 0, 0.4).tally, p_counts=TALL[:1]))
    other.sealed([one], NOW)
    assert [each.open for each in other.alerts().episodes] == [True]


def test_harm_that_grows_beyond_what_labels_acquitted_is_asked_about() -> None:
    """Labels spoke of the window they were drawn from: a drop that is clearly larger is another question."""
    worse = replace(HARM, drop=Interval(0.4, 0.35, 0.45))
    watched = shifted(HARM)
    (episode,) = watched.decision.alerts().open
    watched.decision.harmless(episode.id, NOW)
    month = int(MONTH / PANE) + 9
    assert [each.outcome for each in watched.feed(0.4, HARM, panes=month)] == [Outcome.HARMLESS]
    (again,) = watched.feed(0.4, worse)
    assert (again.since, again.open, again.id != episode.id) == (episode.since, True, True)
    watched.decision.harmless(again.id, NOW)
    assert watched.decision.take_changed()[0].outcome is Outcome.HARMLESS


def test_an_acquittal_holds_for_the_limit_it_was_given_at() -> None:
    """Labels that found a drop harmless at a generous limit say nothing once the limit is lower."""
    watched = shifted(HARM)
    watched.decision.change(replace(RULES, max_drop=0.3))
    watched.decision.harmless(watched.decision.alerts().open[0].id, NOW)
    watched.decision.change(RULES)
    watched.decision.take_changed()
    assert [each.kind for each in watched.feed(0.4, HARM)] == [Kind.DROP]


def test_labels_acquit_nothing_that_has_grown_since() -> None:
    """Where the estimate is clearly above that on which the episode began, its labels do not end it."""
    watched = shifted(HARM)
    watched.feed(0.4, replace(HARM, drop=Interval(0.4, 0.35, 0.45)))
    watched.decision.harmless(watched.decision.alerts().open[0].id, NOW)
    assert watched.decision.take_changed() == []


def test_what_labels_said_of_a_slice_outlives_its_nights() -> None:
    """A slice that comes and goes with the same shift is not asked about each time; after a month it is again."""
    watched = shifted(HARM)
    watched.decision.harmless(watched.decision.alerts().open[0].id, NOW)
    watched.decision.take_changed()
    for _ in range(3):
        watched.start += 2 * LONG
        watched.decision.passed(int(watched.start), NOW)
        assert watched.decision.alerts().slices == ()
        assert watched.feed(0.4, HARM, panes=5) == []
        assert watched.seen
    watched.start += MONTH + PANE
    watched.decision.passed(int(watched.start), NOW)
    assert len(watched.feed(0.4, HARM, panes=5)) == 1


def test_what_labels_said_is_forgotten_in_time_where_the_shift_never_came_back() -> None:
    """A slice that fell silent and came back as usual is, a month later, watched as any other."""
    watched = shifted(HARM)
    watched.decision.harmless(watched.decision.alerts().open[0].id, NOW)
    watched.start += 2 * LONG
    watched.decision.passed(int(watched.start), NOW)
    watched.feed(0.0, FINE, panes=int(MONTH / PANE) + 1)
    watched.decision.take_changed()
    assert [each.open for each in watched.feed(0.4, HARM, panes=3)] == [True]


def test_an_open_question_ends_after_a_long_window_of_calm() -> None:
    """Estimates about the limit, or metrics about the border of the domains, neither end it nor ask again."""
    near = replace(OUTSIDE, drop=Interval(0.04, 0.0, 0.08))
    for hovering in ((near, FINE), (replace(HARM, drop=Interval(0.06, -0.1, 0.2)), FINE)):
        watched = shifted()
        told = [each for _ in range(60) for estimate in hovering for each in watched.feed(0.4, estimate)]
        assert [each.kind for each in told] == [Kind.UNKNOWN]
    assert watched.feed(0.4, FINE, panes=int(LONG / PANE) - 1) == []
    (over,) = watched.feed(0.4, FINE, panes=2)
    assert over.outcome is Outcome.RECOVERED


def test_the_long_window_says_which_harm_it_is() -> None:
    """A short window too small for a narrow interval agrees with a certain long one; not the other way round."""
    wide = replace(HARM, drop=Interval(0.12, 0.0, 0.24))
    for long, short, kind in ((HARM, wide, Kind.DROP), (wide, HARM, Kind.UNKNOWN), (HARM, OUTSIDE, Kind.UNKNOWN)):
        watched = shifted()
        watched.estimate(long, "long")
        watched.estimate(short, "short")
        (episode,) = watched.decision.take_changed()
        assert episode.kind is kind


def test_a_short_window_of_long_ago_decides_nothing() -> None:
    """Both windows must be of now: the short one by its own length."""
    watched = shifted()
    watched.estimate(HARM, "short")
    watched.start += 3 * PANE
    watched.decision.sealed([pane("a", watched.start - PANE, 0.4)], NOW)
    watched.estimate(HARM, "long")
    assert watched.decision.take_changed() == []
    watched.estimate(HARM, "short")
    assert len(watched.decision.take_changed()) == 1


def test_what_another_replica_takes_over_ends_here() -> None:
    """Rolled back to before an episode, those who were told of it hear that it has moved."""
    watched = shifted()
    before = watched.decision.decided
    (episode,) = watched.feed(0.4, HARM)
    watched.decision.roll_back(before, NOW)
    (moved,) = watched.decision.take_changed()
    assert (moved.id, moved.outcome, moved.resolved) == (episode.id, Outcome.MOVED, NOW)
    assert watched.decision.alerts().episodes == (moved,)
    watched.decision.roll_back(watched.decision.decided, NOW)
    assert watched.decision.take_changed() == []


def test_ids_stay_apart_however_many_there_were() -> None:
    """Firing again and again in one shift, with other slices' episodes in between, no id is used twice."""
    watched, ids = shifted(), list[str]()
    for _ in range(RECENT_EPISODES + 10):
        ids += [each.id for each in watched.feed(0.4, HARM) if each.open]
        watched.feed(0.4, FINE)
    assert len(ids) == len(set(ids)) == RECENT_EPISODES + 10


def test_slices_are_decided_on_by_themselves() -> None:
    """A shift in one slice leaves the other alone; more slices make the threshold higher."""
    watched = Watched()
    for name in ("a", "b"):
        watched.start = 0.0
        watched.feed(0.0, FINE, panes=10, name=name)
    (one,) = watched.feed(0.4, HARM, panes=3, name="b")
    assert one.slice == "b"
    a, b = watched.decision.alerts().slices
    assert (a.annotate, b.annotate) == (False, True)
    assert a.threshold > shifted().decision.alerts().slices[0].threshold


def test_old_estimates_decide_nothing() -> None:
    """An estimate of a window that ended a long window ago is no longer held against the slice."""
    watched = shifted()
    watched.estimate(HARM, "long")
    watched.start += 20 * PANE
    watched.decision.sealed([pane("a", watched.start - PANE, 0.4)], NOW)
    watched.estimate(HARM, "short")
    assert watched.decision.take_changed() == []


def test_what_is_told_has_bounds() -> None:
    """Of months of episodes and estimates, the newest are kept; an open episode always is."""
    watched = Watched()
    for _ in range(RECENT_EPISODES + 5):
        watched.feed(0.4, HARM, panes=3)
        watched.feed(0.0, FINE, panes=12)
    watched.feed(0.4, HARM, panes=3)
    alerts = watched.decision.alerts()
    assert len(alerts.open) == 1
    assert len(alerts.episodes) == RECENT_EPISODES + 1
    assert len({each.id for each in alerts.episodes}) == RECENT_EPISODES + 1
    assert len(alerts.history["a"]) == HISTORY
    assert alerts.limit == RULES.max_drop


def test_rules_may_change_while_it_runs() -> None:
    """A higher limit keeps from firing what the old one would have fired on."""
    watched = shifted()
    watched.decision.change(replace(RULES, max_drop=0.1))
    assert watched.feed(0.4, HARM, panes=3) == []
    assert watched.decision.alerts().limit == 0.1

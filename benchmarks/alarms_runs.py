"""The decision engine over a stream: pane by pane as the loop feeds it, and what it made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np
from alarms_streams import LONG, PANE, SHORT, START

from agent.decision import Decision
from agent.estimation import Estimator
from agent.report import WindowEstimate
from agent.watch import Rules
from detectors.table import BIASED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alarms_models import Watched
    from alarms_streams import Traffic

    from agent.alert_report import Episode

MAX_DROP = 0.05
# One false alarm a month over ten agents.
BUDGET, AGENTS = 1.0, 10
LEAST_ITEMS = 100
WINDOWS = (("long", LONG), ("short", SHORT))


@dataclass
class Seen:
    """What happened to one slice: the panes at whose end a shift began, and ceased, to be seen."""

    seen: list[int] = field(default_factory=list)
    unseen: list[int] = field(default_factory=list)
    now: bool = False

    def note(self, pane: int, *, seen: bool) -> None:
        """The state after a pane."""
        if seen != self.now:
            (self.seen if seen else self.unseen).append(pane)
            self.now = seen


@dataclass
class Outcome:
    """A run: what was seen by slice, the episodes, and how long a decision step took, in seconds."""

    slices: dict[str, Seen]
    episodes: list[Episode]
    steps: float = 0.0
    stepped: int = 0
    estimates: int = 0

    def fired(self, name: str) -> list[tuple[int, Episode]]:
        """A slice's episodes with the pane at whose end they began."""
        return [(pane_of(each.fired), each) for each in self.episodes if each.slice == name]


def pane_of(time: float) -> int:
    """The pane at whose end something was decided."""
    return round((time - START) / PANE) - 1


def decision_of(watched: Watched) -> Decision:
    """The engine as the agent of one of ten models makes it."""
    rules = Rules(
        max_drop=MAX_DROP,
        false_alarms=BUDGET / AGENTS,
        precision=0.03,
        pane=PANE,
        short=SHORT * PANE,
        long=LONG * PANE,
    )
    return Decision(rules, watched.name, list(calibrated_rows(watched).values()))


def calibrated_rows(watched: Watched) -> dict[str, int]:
    """On how many rows each detector's p-values are calibrated; none where the engine places no bets on them."""
    detectors = watched.reference.detectors.items()
    return {name: 0 if name in BIASED else len(each.validation_scores) for name, each in detectors}


class Run:
    """Feeds one engine. Estimates are made where they can have an effect: of slices that show a shift."""

    def __init__(self, watched: Watched, estimator: Estimator, seed: tuple[int, ...]) -> None:
        self._decision = decision_of(watched)
        self._estimator = estimator
        self._draw = np.random.default_rng(seed)
        self._asked: dict[str, int] = {}

    def over(self, traffics: Sequence[Traffic], every: int) -> Outcome:
        """All panes of these slices, with estimates of the windows that end with every `every`-th pane."""
        decision = self._decision
        outcome = Outcome({each.slice: Seen() for each in traffics}, [])
        episodes: dict[str, Episode] = {}
        for number in range(len(traffics[0])):
            now = float(START + (number + 1) * PANE)
            panes = [each.pane(number) for each in traffics]
            begun = thread_time()
            decision.sealed(panes, now)
            outcome.steps += thread_time() - begun
            outcome.stepped += len(panes)
            alive = {each.slice for each in decision.decided.episodes if each.open}
            for traffic in traffics:
                name = traffic.slice
                seen = decision.decided.watches[name].seen
                outcome.slices[name].note(number, seen=seen)
                if (seen or name in alive) and (number + 1) % every == 0:
                    outcome.estimates += self._estimate(traffic, number, every)
            episodes |= {each.id: each for each in decision.take_changed()}
        outcome.episodes = list(episodes.values())
        return outcome

    def _estimate(self, traffic: Traffic, number: int, every: int) -> int:
        """Feed the windows that end with this pane, the long one first, as the agent's job does.

        Where none was asked for the last time, the engine would still know the short window of then.
        """
        name, end = traffic.slice, number + 1
        wanted = [(window, panes, end) for window, panes in WINDOWS]
        if self._asked.get(name) != end - every and end > every:
            wanted.insert(0, ("short", SHORT, end - every))
        self._asked[name] = end
        for window, panes, until in wanted:
            estimate = self._estimator.of_window(*traffic.window(until, panes, self._draw))
            time = float(START + until * PANE)
            self._decision.estimated(WindowEstimate(name, window, time, time, estimate), float(START + end * PANE))
        return len(wanted)


def estimator_of(watched: Watched) -> Estimator:
    """As the agent makes it."""
    return Estimator(watched.reference, LEAST_ITEMS)

"""An Evaluation in plain words: first the answer, then how sure it is, then what it means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.evaluation_report import Evaluation
    from agent.interval import Interval

UNKNOWN = "n/a"


@dataclass(frozen=True)
class Answer:
    """The answer in one sentence; how sure it is; what it means; and how the label-free estimate did, if asked.

    `mood` is "worse", "better" or "same", as far as the items can tell.
    """

    mood: str
    headline: str
    certainty: str
    meaning: str
    estimate: str


def answer(evaluation: Evaluation) -> Answer:
    """What a tired person should know first."""
    return Answer(
        mood=mood(evaluation.sd),
        headline=_headline(evaluation),
        certainty=_certainty(evaluation),
        meaning=_meaning(evaluation),
        estimate=_estimate(evaluation),
    )


def mood(sd: Interval) -> str:
    """Whether the drop's interval lies above zero ("worse"), below ("better") or holds it ("same")."""
    if sd.low > 0:
        return "worse"
    return "better" if sd.high < 0 else "same"


def _headline(evaluation: Evaluation) -> str:
    sd, items = evaluation.sd.estimate, f"{evaluation.n:,} labelled item{'s' if evaluation.n > 1 else ''}"
    got = f"The model gets {percent(evaluation.accuracy.estimate)} of "
    got += f"the tokens of {items} right" if evaluation.labels_tokens else f"{items} right"
    home = f"the {percent(evaluation.source_accuracy.estimate)} that it reaches on its source"
    if round(1000 * sd) == 0:
        return f"{got}, just as many as on its source."
    return f"{got}, {abs(100 * sd):.1f} points {'less' if sd > 0 else 'more'} than {home}."


def _certainty(evaluation: Evaluation) -> str:
    sd, accuracy = evaluation.sd, evaluation.accuracy
    sure = (
        f"{percent(evaluation.level, 0)} sure: accuracy between {percent(accuracy.low)} and "
        f"{percent(accuracy.high)}, drop between {span(sd)} points "
        f"(the source's own figure comes from {evaluation.source_rows:,} test rows)."
    )
    verdict = {
        "worse": "The drop is real: chance alone does not explain it.",
        "better": "The gain is real: chance alone does not explain it.",
        "same": "Chance alone could explain the difference: these labels do not prove that anything was lost.",
    }
    return f"{verdict[mood(sd)]} {sure}"


def _meaning(evaluation: Evaluation) -> str:
    target = evaluation.target
    if target is None:
        return f"Whether retraining on such items would help cannot be said: {evaluation.target_reason}."
    return (
        f"{target.meaning} Trained on these items alone, a model reaches {percent(target.tt.estimate)} "
        f"({target.folds}-fold cross-validation): {points(target.td.estimate)} points against this model "
        f"(between {span(target.td)})."
    )


def _estimate(evaluation: Evaluation) -> str:
    estimate = evaluation.estimate
    if estimate is None:
        return ""
    if estimate.reason:
        return f"Without labels, no drop could be estimated: {estimate.reason}."
    inside = estimate.drop.low <= evaluation.sd.estimate <= estimate.drop.high
    said = (
        f"Without labels, a drop of {points(estimate.drop.estimate)} points was estimated "
        f"(between {span(estimate.drop)}, {estimate.level:.0%} sure): "
        f"the realised {points(evaluation.sd.estimate)} lies {'inside' if inside else 'outside'} that interval."
    )
    if estimate.inside_domains:
        return said
    return f"{said} The estimate had warned that this table lies outside the fitted domains."


def percent(fraction: float, digits: int = 1) -> str:
    """A fraction as a percentage, n/a where it is not known.

    >>> percent(0.7136), percent(float("nan"))
    ('71.4%', 'n/a')
    """
    return f"{100 * fraction:.{digits}f}%" if math.isfinite(fraction) else UNKNOWN


def points(fraction: float) -> str:
    """A difference of fractions in points, with its sign, n/a where it is not known.

    >>> points(0.061), points(-0.004), points(0.0)
    ('+6.1', '-0.4', '0.0')
    """
    if not math.isfinite(fraction):
        return UNKNOWN
    return f"{100 * fraction:+.1f}" if round(1000 * fraction) else "0.0"


def span(interval: Interval) -> str:
    """The bounds of an interval of differences, in points; with signs where they differ.

    >>> from agent.interval import Interval
    >>> span(Interval(0.1, 0.05, 0.15)), span(Interval(0.0, -0.05, 0.05))
    ('5.0 and 15.0', '-5.0 and +5.0')
    """
    bounds = points(interval.low), points(interval.high)
    return " and ".join(bounds if interval.low < 0 else (bound.removeprefix("+") for bound in bounds))


def number(value: float, digits: int = 3) -> str:
    """A plain number, n/a where it is not known.

    >>> number(1.23456), number(float("nan"))
    ('1.235', 'n/a')
    """
    return f"{value:.{digits}f}" if math.isfinite(value) else UNKNOWN

"""A Status in plain words: first whether it is hurting, then how that is known, then what to do."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from exporters.status.facts import State, plain
from exporters.status.format import about, accepted, bare, count, points, since, span

if TYPE_CHECKING:
    from agent.alert_report import Realised
    from exporters.status.facts import SliceFacts, Status

# One or two words for each state, so that no meaning hangs on a colour.
LABELS = {
    State.LOST: "Hurting",
    State.CANNOT_TELL: "Cannot tell",
    State.SUSPECTED: "Perhaps hurting",
    State.SHIFT: "Shift only",
    State.NO_ESTIMATE: "No estimate",
    State.FINE: "Fine",
}
WAITING, BLIND = "waiting", "blind"
# What the runbook asks first of an open episode.
FIRST = "Did something change at that time: a release, a client, a new tenant? If so, undo or mend it."
CONFIRMED = (
    "Labels confirm it: fall back, or retrain; `leadline annotate import … --out` makes a new reference of them."
)
# So many names in a sentence.
MOST = 3


@dataclass(frozen=True)
class Answer:
    """The answer in one sentence, what it rests on, and what to do now; either of these may be empty.

    `mood` is a state, or "waiting" before there is anything to say, or "blind" while nothing new is learnt;
    `label` says it in a word or two.
    """

    mood: str
    label: str
    headline: str
    meaning: str
    todo: str


def answer(status: Status) -> Answer:
    """What a tired person should know first."""
    known = _known(status)
    if not status.trouble:
        return known
    why, _, remedy = status.trouble.removeprefix("reading has stopped: ").partition("; ")
    return Answer(
        mood=BLIND,
        label="Not reading",
        headline=f"Not reading: {why}.",
        meaning=f"Known before that: {known.headline}" if status.slices else "",
        todo=f"{remedy[:1].upper()}{remedy[1:]}." if remedy else "",
    )


def _known(status: Status) -> Answer:
    """The answer, as far as anything was read."""
    if not status.slices:
        meaning = "The first answer comes when the first window ends."
        return Answer(WAITING, "Waiting", "Nothing to say yet: no window has ended.", meaning, "")
    worst = status.slices[0]
    alone = len(status.slices) == 1
    label = LABELS[worst.state]
    if worst.state == State.NO_ESTIMATE and len(status.of(State.NO_ESTIMATE)) < len(status.slices):
        return _mostly_fine(status)
    if worst.state == State.FINE:
        return Answer(worst.state, label, "No sign of harm.", _fine(status), "")
    meaning = " ".join(filter(None, (grounds(worst, status.now), _others(status))))
    return Answer(worst.state, label, sentence(worst, status.now, alone=alone), meaning, _todo(worst))


def sentence(facts: SliceFacts, now: float, *, alone: bool = False) -> str:
    """How this slice is doing; `alone` is whether there is no other that it could be mistaken for."""
    where = "" if alone and facts.name == "default" else f" in slice {plain(facts.name)}"
    write = {
        State.LOST: _lost,
        State.CANNOT_TELL: _cannot_tell,
        State.SUSPECTED: _suspected,
        State.SHIFT: _shift,
        State.NO_ESTIMATE: _no_estimate,
        State.FINE: _no_harm,
    }[facts.state]
    return write(facts, where, since(facts.since, now, facts.newest))


def _lost(facts: SliceFacts, where: str, begun: str) -> str:
    labels = facts.labels
    if labels is not None and facts.answer == "harmful":
        by = count(labels.labelled, "label")
        return f"Accuracy is lost: {about(labels.combined)} by {by}{where}, since {begun}."
    if labels is not None and isfinite(labels.combined.estimate):
        return f"Accuracy is probably lost{where}, since {begun}: {_undecided(labels)}."
    much = f": about {about(facts.drop)}" if isfinite(facts.drop.estimate) else ""
    return f"Accuracy is probably lost{much}{where}, since {begun}."


def _undecided(labels: Realised) -> str:
    """Labels that do not settle whether too much is lost."""
    why = "too few to be sure" if labels.labelled < labels.asked else "which leaves it open"
    return f"{labels.labelled:,} of {count(labels.asked, 'label')} say {about(labels.combined)}, {why}"


def _cannot_tell(facts: SliceFacts, where: str, begun: str) -> str:
    labels = facts.labels
    if labels is not None and isfinite(labels.combined.estimate):
        return f"Nobody can tell yet what the shift{where}, since {begun}, costs: {_undecided(labels)}."
    asked = f"; {count(facts.needed, 'label')} are asked for" if facts.needed else ""
    return f"Nobody can tell what the shift{where}, since {begun}, costs{asked}."


def _suspected(facts: SliceFacts, where: str, begun: str) -> str:
    seen = f"the shift is certain since {begun}" if facts.shift_seen else "no shift is certain yet"
    return f"Accuracy may be lost: about {about(facts.drop)}{where}, but {seen}."


def _shift(facts: SliceFacts, where: str, begun: str) -> str:
    seen = f"Shift seen{where}, since {begun}"
    if facts.answer == "harmless":
        return f"{seen}, but labels say that {accepted(facts.limit)}."
    if facts.labels is not None and isfinite(facts.labels.combined.estimate):
        return f"{seen}; whether it costs more than you accept is open: {_undecided(facts.labels)}."
    if not isfinite(facts.drop.estimate):
        return f"{seen}; no estimate of what it costs: {facts.reason}."
    if not facts.inside:
        return f"{seen}; no label has shown yet what such items cost."
    if facts.drop.high <= facts.limit:
        return f"{seen}, but by the estimate {accepted(facts.limit)}."
    return f"{seen}; whether it costs accuracy is not certain: about {about(facts.drop)}."


def _no_estimate(facts: SliceFacts, where: str, _: str) -> str:
    return f"No estimate{where}: {facts.reason}."


def _no_harm(_: SliceFacts, where: str, __: str) -> str:
    return f"No sign of harm{where}."


def grounds(facts: SliceFacts, now: float) -> str:
    """What is known of this slice beside its sentence: the estimate, what labels say, the limit."""
    told = [_estimate(facts)]
    if facts.labels is not None:
        told.append(returned(facts.labels))
        if facts.episode is None and facts.over is not None:
            told.append(f"That was {since(facts.over.resolved, now)}.")
    return " ".join(filter(None, told))


def _estimate(facts: SliceFacts) -> str:
    made, limit = facts.made, f"; you accept {bare(facts.limit)}" if isfinite(facts.limit) else ""
    if made is None or made.estimate.reason:
        return "" if facts.state == State.NO_ESTIMATE else f"No estimate now: {facts.reason}."
    sure = f" ({made.estimate.level:.0%} sure)" if isfinite(made.estimate.level) else ""
    said = f"Estimated without labels: {about(made.estimate.drop)} lost{sure}{limit}."
    if facts.inside:
        return said
    beyond = f" ({', '.join(map(plain, facts.outside))})" if facts.outside else ""
    return f"{said} Do not lean on it: these items are unlike every labelled domain{beyond}."


def returned(realised: Realised) -> str:
    """What the labels of a batch say, beside what had been estimated without them."""
    back = f"{realised.labelled:,} of {count(realised.asked, 'label')} came back"
    if not isfinite(realised.drop.estimate):
        return f"{back}: nothing can be said from them yet."
    beside = f", {points(realised.estimated.estimate)} had been estimated when the batch was drawn"
    told = f"{back}: {about(realised.drop)} lost" + (beside if isfinite(realised.estimated.estimate) else "")
    if isfinite(realised.combined.estimate):
        told += f"; both together: {points(realised.combined.estimate)} ({span(realised.combined)})"
    return f"{told}."


def _todo(facts: SliceFacts) -> str:
    if facts.answer == "harmful":
        return CONFIRMED
    if facts.answer == "harmless" or facts.episode is None:
        return ""
    if facts.batch is not None:
        return _rest(facts.batch.items, facts.labels)
    if facts.needed:
        items = count(facts.needed, "item")
        return f"{FIRST} If not, label about {items} of this slice: no annotation batch was written for it."
    return FIRST


def _rest(items: int, labels: Realised | None) -> str:
    """What is left to do of a batch of so many items while its labels do not tell."""
    back = 0 if labels is None else labels.labelled
    if not back:
        label = f"label the {count(items, 'item')} of the annotation batch below, then import the labels"
    elif back < items:
        label = f"import {count(items - back, 'more label')} of the annotation batch below"
    else:
        label = "`leadline annotate import` says how many labels beyond this batch would tell"
    return f"{FIRST} If not, {label}."


def _others(status: Status) -> str:
    """The further slices that are not fine, by state."""
    told = []
    for state in State:
        names = [plain(each.name) for each in status.slices[1:] if each.state == state]
        if names and state not in {State.FINE, State.NO_ESTIMATE}:
            more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
            told.append(f"{LABELS[state]}: {', '.join(names[:MOST])}{more}.")
    return f"Besides: {' '.join(told)}" if told else ""


def _fine(status: Status) -> str:
    worst = status.slices[0]
    where = "" if len(status.slices) == 1 else f" The highest estimate is that of slice {plain(worst.name)}."
    seen = "No shift is seen." if worst.decision is not None else "Nothing here decides about shifts."
    return f"{seen} {_estimate(worst)}{where}"


def _mostly_fine(status: Status) -> Answer:
    fine, unknown = status.of(State.FINE), status.of(State.NO_ESTIMATE)
    headline = f"No sign of harm in {len(fine)} of {count(len(status.slices), 'slice')}."
    meaning = f"There is no estimate of {_list(unknown)}: {unknown[0].reason}."
    return Answer(State.FINE, LABELS[State.FINE], headline, meaning, "")


def _list(slices: tuple[SliceFacts, ...]) -> str:
    names = [plain(each.name) for each in slices]
    return ", ".join(names) if len(names) <= MOST else f"{', '.join(names[:MOST])} and {len(names) - MOST} more"

"""What the drop benchmark asks of panels that never saw the target: whole domains, and windows that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from drop_methods import OURS, Answer, Lines, Panel, Row, predictions
from drop_study import SAMPLE, SEED, mixed
from workbench import say

from detectors.drop import DropFit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from drop_study import Part, Study

    Experiment = Callable[[Study, int, Panel], Iterator[Row]]

RATIOS = (0.1, 0.3, 0.7, 0.9)
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SIZES = (100, 250, 500, 1_000, SAMPLE)
LABEL_ROWS, MIXED_ROWS, SOURCE_ROWS = 800, 800, 400
# Small windows are drawn several times from a target, without overlap.
MOST_DRAWS = 5


def left_out(study: Study, experiments: Mapping[str, Experiment]) -> dict[str, list[Row]]:
    """Fit one panel for each target without it, and run every experiment with it."""
    rows: dict[str, list[Row]] = {name: [] for name in experiments}
    for target, name in enumerate(study.names):
        say(f"{name}, {target + 1} of {len(study)}")
        panel = Panel.over(study, study.others(target))
        for title, experiment in experiments.items():
            rows[title] += experiment(study, target, panel)
    return rows


def whole(study: Study, target: int, panel: Panel) -> Iterator[Row]:
    """A sample of the target, held against the drop on all its rows."""
    ours = panel.answers(study.models, study.domains[target].sample)
    for source, answer in ours.items():
        realised = float(study.drops[source, target])
        lines = Lines.over(study, source, study.others(source, target))
        for method, other in lines.answers(study.metrics[source][target]).items():
            yield Row("", method, source, realised, other)
        yield Row("", OURS, source, realised, answer)


def classes_changed(study: Study, target: int, panel: Panel) -> Iterator[Row]:
    """Windows of the target with other class ratios."""
    for ratio, window in class_windows(study, target).items():
        yield from compared(study, panel, f"{10 * ratio:.0f}:{10 - 10 * ratio:.0f}", window, (target,))


def class_windows(study: Study, target: int) -> dict[float, Part]:
    """Windows of the target by their share of positive items."""
    part = study.domains[target]
    positive, negative = part.take(part.labels == 1), part.take(part.labels == 0)
    draw = np.random.default_rng((SEED, target))
    return {ratio: mixed(positive, negative, ratio, LABEL_ROWS, draw) for ratio in RATIOS}


def sizes(study: Study, target: int, panel: Panel) -> Iterator[Row]:
    """Windows of the target of other sizes; ours only."""
    part = study.domains[target]
    for size in SIZES:
        for draw in range(max(1, min(MOST_DRAWS, len(part) // size))):
            window = part.take(slice(draw * size, (draw + 1) * size))
            for source, answer in panel.answers(study.models, window).items():
                yield Row(f"{size:,}", OURS, source, study.models[source].drop(window), answer)


def backtest(study: Study) -> tuple[list[Row], float]:
    """What one fit over all domains says of each while it leaves it out, and how often it says its intervals hold.

    The estimates see nothing of the domain left out; the widths see it through the errors on the others, whose
    panels know it.
    """
    places = range(len(study))
    outside = [predictions(model, source, places, study.domains) for source, model in enumerate(study.models)]
    fit = DropFit([part.labelled for part in study.domains], outside)
    rows = []
    for source, model in enumerate(study.models):
        for found in filter(None, fit.left_out(source)):
            estimate = found.estimate
            bounds = (estimate.accuracy, estimate.high, estimate.low)
            answer = Answer(*(model.accuracy - value for value in bounds))
            rows.append(Row("", OURS, source, model.accuracy - found.accuracy, answer))
    return rows, fit.coverage()[0]


def mixtures(study: Study) -> list[Row]:
    """Windows mixed of two domains of which nothing was seen, or of one of them and the source's own test rows.

    The panel learns from train and validation rows only, so that the source's test rows are new to it.
    """
    seen = [part.of("train", "validation") for part in study.domains]
    order = np.random.default_rng(SEED).permutation(len(study))
    rows: list[Row] = []
    for number, pair in enumerate(order.reshape(-1, 2).tolist()):
        say(f"mixtures of {' and '.join(study.names[place] for place in pair)}, {number + 1} of {len(order) // 2}")
        panel = Panel.over(study, study.others(*pair), seen)
        rows += mixed_with_another(study, panel, pair)
        for target in pair:
            rows += mixed_with_source(study, panel, target, pair)
    return rows


def mixed_with_another(study: Study, panel: Panel, pair: Sequence[int]) -> Iterator[Row]:
    """Two domains in shares: 10 % of one is 90 % of the other."""
    first, second = (study.domains[place] for place in pair)
    draw = np.random.default_rng((SEED, *pair))
    for share in SHARES:
        window = mixed(first, second, share, MIXED_ROWS, draw)
        yield from compared(study, panel, f"another domain, {100 * share:.0f} %", window, pair)


def mixed_with_source(study: Study, panel: Panel, target: int, pair: Sequence[int]) -> Iterator[Row]:
    """The target with each source's own test rows, a window for every source."""
    draw = np.random.default_rng((SEED, target))
    for share in SHARES:
        for source in panel.estimators:
            test = study.domains[source].of("test")
            window = mixed(study.domains[target], test, share, SOURCE_ROWS, draw)
            alone = Panel({source: panel.estimators[source]})
            yield from compared(study, alone, f"the source, {100 * share:.0f} %", window, pair)


def compared(study: Study, panel: Panel, case: str, window: Part, absent: Sequence[int]) -> Iterator[Row]:
    """Every method's answer on one window for each of the panel's models, beside the drop by its labels."""
    for source, answer in panel.answers(study.models, window).items():
        model = study.models[source]
        realised = model.drop(window)
        lines = Lines.over(study, source, study.others(source, *absent))
        for method, other in lines.answers(model.metrics(window)).items():
            yield Row(case, method, source, realised, other)
        yield Row(case, OURS, source, realised, answer)

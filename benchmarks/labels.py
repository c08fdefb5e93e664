"""What labels of an annotation batch are worth: how often their intervals hold, and what predictions add to them.

    python benchmarks/labels.py --write      some minutes on two cores; the first run encodes 42,000 texts

Every domain is in turn the traffic, and the model of every other one meets it. The panel has not seen the domain.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from drop_study import SEED, sentiment, study_of
from workbench import machine, markdown, publish, say

from detectors.panel_fit import PanelFit
from detectors.proportions import difference
from detectors.softmax import confidences
from detectors.strata import draw
from detectors.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drop_study import Study
    from numpy.typing import NDArray

    from detectors.contract import Vector
    from detectors.survey import Share

LABELS = (50, 100, 200, 300, 500)
DISSIMILAR = 20
REPEATS = 10
WINDOW = 1_000
HALF_BACK = 0.5

PAGE = """# What labels are worth

{shifts} shifts between {domains} sentiment domains (`data/sentiment.parquet`). Of each, {repeats} windows of
{window:,} items, drawn with replacement from 2,000 rows of the target, whose accuracy is the *truth*; from each
window a batch as the agent draws it: strata of depth, and the {dissimilar} least alike all asked for. The panel
that gives the label-free probabilities has seen nothing of the target. {batches:,} batches a line, 95 % intervals.

{table}
*Saved*: so many more labels alone would be as sure. With *confidence* the model's own calibrated confidence takes
the place of the panel, as where a reference has none. The last column is the interval of the drop, for which the
source's accuracy is measured anew in each window, on as many rows as its test table has.

## Half a batch

As above, with the first half of each batch labelled: items come in random order.

{half}
Made by `python benchmarks/labels.py --write` on {machine}.
"""


@dataclass(frozen=True)
class Row:
    """One batch, by the way of estimating: whether the interval held, and its width; and the drop's."""

    held: dict[str, bool]
    width: dict[str, float]
    drop_held: bool


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/labels.md")
    options = parser.parse_args()
    study = study_of(*sentiment())
    whole: dict[int, list[Row]] = defaultdict(list)
    half: dict[int, list[Row]] = defaultdict(list)
    for target in range(len(study)):
        say(f"{study.names[target]}, {target + 1} of {len(study)}")
        for labels, row, part in batches(study, target):
            whole[labels].append(row)
            half[labels].append(part)
    domains = len(study)
    publish(
        "labels",
        PAGE.format(
            shifts=domains * (domains - 1),
            domains=domains,
            repeats=REPEATS,
            window=WINDOW,
            dissimilar=DISSIMILAR,
            batches=len(whole[LABELS[0]]),
            table=table(whole),
            half=table(half),
            machine=machine(),
        ),
        write=options.write,
    )


def batches(study: Study, target: int) -> Iterator[tuple[int, Row, Row]]:
    """For each model, window and size of batch: what all its labels say, and what half of them do."""
    part = study.domains[target]
    members = [study.domains[place].sample.labelled for place in study.others(target)]
    panel = PanelFit(members, []).without(None).panel
    posteriors = panel.posteriors(part.sample.embedding).believed
    rng = np.random.default_rng((SEED, target))
    for source in study.others(target):
        model, home = study.models[source], study.domains[source]
        sample = part.sample
        predicted = model.predicted(sample)
        right = (predicted == sample.labels).astype(np.float64)
        depths = sample.embedding @ home.of("train").embedding.mean(axis=0)
        free = {
            "panel": posteriors[np.arange(len(predicted)), predicted],
            "confidence": confidences(model.head.logits(sample.embedding), model.temperature)[:, 1],
        }
        tested = len(home.of("test"))
        truth = float(right.mean()), model.accuracy
        for _ in range(REPEATS):
            rows = rng.integers(0, len(right), WINDOW)
            shown = rng.binomial(tested, model.accuracy) / tested, tested
            window = {name: values[rows] for name, values in free.items()}
            for labels in LABELS:
                order = rng.integers(0, 2**63, len(rows)).astype(np.uint64)
                drawn = draw(depths[rows].astype(np.float64), order, labels, DISSIMILAR)
                sizes = np.array([size for size, _ in drawn.strata], np.float64)
                found = []
                for back in (labels, round(labels * HALF_BACK)):
                    chosen = drawn.rows[:back]
                    survey = Survey(sizes, drawn.stratum[:back], right[rows][chosen])
                    found.append(judged(survey, chosen, window, truth, shown))
                yield labels, found[0], found[1]


def judged(
    survey: Survey,
    chosen: NDArray[np.intp],
    free: dict[str, Vector],
    truth: tuple[float, float],
    source: tuple[float, int],
) -> Row:
    """What a survey says by the labels alone, with the panel, and with the confidence.

    `truth` is the accuracy on the target and on the source, `source` what was measured of the latter.
    """
    shares: dict[str, Share] = {"labels": survey.share}
    shares |= {name: survey.combined(values[chosen], float(values.mean())).share for name, values in free.items()}
    bounds = {name: share.interval() for name, share in shares.items()}
    panel = shares["panel"]
    low, high = difference(source, (panel.value, panel.items))
    return Row(
        held={name: bool(low <= truth[0] <= high) for name, (low, high) in bounds.items()},
        width={name: high - low for name, (low, high) in bounds.items()},
        drop_held=bool(low <= truth[1] - truth[0] <= high),
    )


def table(found: dict[int, list[Row]]) -> str:
    """Coverage, widths and what predictions save, by the size of the batch."""
    header = (
        "labels asked",
        "labels alone: hold, of 95 %",
        "half width",
        "with the panel: hold",
        "half width",
        "narrower by",
        "saved",
        "with confidence: hold",
        "half width",
        "drop: hold",
    )
    lines = []
    for labels, rows in found.items():
        held = {name: 100 * np.mean([row.held[name] for row in rows]) for name in rows[0].held}
        half = {name: 50 * np.mean([row.width[name] for row in rows]) for name in rows[0].width}
        ratio = half["panel"] / half["labels"]
        lines.append(
            (
                labels,
                f"{held['labels']:.1f} %",
                f"± {half['labels']:.1f}",
                f"{held['panel']:.1f} %",
                f"± {half['panel']:.1f}",
                f"{100 * (1 - ratio):.0f} %",
                f"{100 * (1 / ratio**2 - 1):.0f} %",
                f"{held['confidence']:.1f} %",
                f"± {half['confidence']:.1f}",
                f"{100 * np.mean([row.drop_held for row in rows]):.1f} %",
            )
        )
    return markdown(header, lines)


if __name__ == "__main__":
    main()

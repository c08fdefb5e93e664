"""`leadline estimate`: the drop of a table without labels, in words and as facts, or why there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agent.backtest import too_few
from agent.bundle import load_reference, save_reference
from agent.cli.estimate import _show
from agent.estimation import Counted, refused
from agent.reference import Trust
from detectors.table import DETECTORS
from tests.cli.workbench import columns, facts, leadline, table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.workbench import Bench, Outcome

KEYS = {"n", "drop", "accuracy", "methods", "inside_domains", "q", "ood"}


def _estimate(bench: Bench, texts: Path, *options: object) -> tuple[Outcome, dict[str, Any]]:
    out = texts.with_suffix(".json")
    done = leadline("estimate", bench.reference, texts, "--json", out, *options)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    if not out.exists():
        return done, {}
    return done, json.loads(out.read_text(encoding="utf-8"), parse_constant=refuse)


def test_the_facts_have_their_fixed_keys(bench: Bench, tmp_path: Path) -> None:
    """`--json` holds the drop and the accuracy with their bounds, each method's word, Q and the OOD ratios."""
    done, told = _estimate(bench, table(tmp_path / "new.csv", bench.texts["amazon"][100:300], label=None))
    assert done.code == 0, done.err
    assert told.keys() >= KEYS
    assert told["n"] == 200
    assert told["drop"].keys() == {"estimate", "low", "high", "level"}
    assert told["accuracy"].keys() == {"estimate", "low", "high"}
    assert all(each.keys() == {"metric", "drop"} for each in told["methods"].values())
    assert {"mean", "agreement"} == told["methods"].keys()  # two reference domains are too few for lines
    assert (told["drop"]["level"], told["reason"], told["outside"]) == (0.9, "", [])
    assert told["inside_domains"] is True
    assert 0 < told["q"] < 0.5
    assert told["ood"].keys() == set(DETECTORS)


def test_the_drop_is_that_of_the_reference(bench: Bench, tmp_path: Path) -> None:
    """Fractions, not points: the source's test accuracy less the estimated one, near the realised drop."""
    rated = bench.texts["amazon"][100:300]
    done, told = _estimate(bench, table(tmp_path / "new.parquet", rated, label=None))
    source = load_reference(bench.reference).source.accuracy["test"]
    assert done.code == 0, done.err
    assert told["drop"]["estimate"] == pytest.approx(source - told["accuracy"]["estimate"])
    leadline("score", bench.reference, tmp_path / "new.parquet", "--out", tmp_path / "scored.parquet")
    predicted = columns(tmp_path / "scored.parquet")["prediction"]
    accuracy = np.mean([one == label for one, (_, label) in zip(predicted, rated, strict=True)])
    assert told["drop"]["low"] <= source - accuracy <= told["drop"]["high"]


def test_a_person_is_told_in_points(bench: Bench, tmp_path: Path) -> None:
    """The terminal tells drop, bounds, level and accuracy, and what each method says alone."""
    done, told = _estimate(bench, table(tmp_path / "new.jsonl", bench.texts["amazon"][:100], label=None))
    shown = " ".join(done.out.split())
    drop, accuracy = told["drop"], told["accuracy"]
    assert f"{100 * drop['estimate']:+.1f} [{100 * drop['low']:+.1f}, {100 * drop['high']:+.1f}] points" in shown
    assert f"(90% interval), so an accuracy of {accuracy['estimate']:.3f}" in shown
    assert "Estimated drop on 100 items" in shown
    assert "agreement" in shown
    assert "nan" not in shown


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([0], "1 items are too few, at least 30 are needed"),
        ([*range(29)], "29 items are too few, at least 30 are needed"),
        ([0, 1, 2] * 20, "only 3 of 60 items are different, at least 20 are needed"),
    ],
)
def test_where_nothing_can_be_said_the_reason_is(
    rows: list[int], reason: str, bench: Bench, tmp_path: Path
) -> None:
    """Exit code 1, the reason in words, and null for every number that there is not."""
    rated = [bench.texts["amazon"][row] for row in rows]
    done, told = _estimate(bench, table(tmp_path / "new.csv", rated, label=None))
    assert (done.code, done.err) == (1, "")
    assert f"Cannot say how much accuracy is lost: {reason}." in " ".join(done.out.split())
    assert told["reason"] == reason
    assert told["drop"] == {"estimate": None, "low": None, "high": None, "level": 0.9}
    assert told["accuracy"] == {"estimate": None, "low": None, "high": None}
    assert (told["methods"], told["inside_domains"], told["n"]) == ({}, False, len(rows))
    assert 0 <= told["q"] <= 1


def test_a_window_of_one_prediction_says_so(bench: Bench, tmp_path: Path) -> None:
    """Texts that are all predicted alike give no estimate: the label is named."""
    texts = table(tmp_path / "all.csv", bench.texts["movies"][:100])
    leadline("score", bench.reference, texts, "--out", tmp_path / "scored.csv")
    predicted = columns(tmp_path / "scored.csv")["prediction"]
    chosen = [pair for pair, label in zip(bench.texts["movies"], predicted, strict=False) if label == "positive"]
    done, told = _estimate(bench, table(tmp_path / "new.csv", chosen, label=None))
    assert done.code == 1
    assert told["reason"].startswith("the model predicts 'positive' for every item")


def test_a_label_with_brackets_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """What the console takes for a colour is still a label."""
    _show(refused("the model predicts '[bold]' for every item", Counted(40, {})))
    assert "predicts '[bold]' for every item" in " ".join(capsys.readouterr().out.split())


def test_without_domains_there_is_no_drop(bench: Bench, tmp_path: Path) -> None:
    """A reference without labelled domains says what it needs, in `estimate` and `backtest` alike."""
    whole = load_reference(bench.reference)
    bare = replace(whole, domains=(), estimator=None, trust=Trust(too_few(0, 2)))
    save_reference(bare, tmp_path / "reference")
    texts = table(tmp_path / "new.csv", bench.texts["amazon"][:40], label=None)
    estimated = leadline("estimate", tmp_path / "reference", texts, "--encoder", bench.encoder)
    backtested = leadline("backtest", tmp_path / "reference", "--json", tmp_path / "backtest.json")
    assert (estimated.code, backtested.code) == (1, 1)
    for done in (estimated, backtested):
        assert "no labelled domains beside its source: name at least 2" in " ".join(done.out.split())
    told = facts(tmp_path / "backtest.json")
    assert (told["methods"], told["domains"]) == ({}, [])
    assert told["coverage"] == {"level": 0.9, "observed": None, "n": 0}


def test_usage_errors_end_with_2(bench: Bench, tmp_path: Path) -> None:
    """No table, an empty one, one without text, and what is no reference: one line each, and exit code 2."""
    empty = tmp_path / "empty.csv"
    empty.write_text("text\n", encoding="utf-8")
    other = tmp_path / "other.csv"
    other.write_text("words\nsome\n", encoding="utf-8")
    for arguments, complaint in (
        ((bench.reference, tmp_path / "absent.csv"), "no such file"),
        ((bench.reference, empty), "the table has no rows"),
        ((bench.reference, other), "column 'text' is missing"),
        ((tmp_path / "absent", other), "is not a reference"),
    ):
        done = leadline("estimate", *arguments)
        assert (done.code, len(done.complaints)) == (2, 1)
        assert complaint in done.complaints[0]


@pytest.mark.data
def test_another_language_is_outside_the_fitted_domains(
    bench: Bench, evaluation_texts: Path, tmp_path: Path
) -> None:
    """Texts in French are like no reference domain, and the source's own held-out texts are like the source."""
    content = columns(evaluation_texts / "languages.parquet")
    french = [text for text, name in zip(content["text"], content["language"], strict=True) if name == "French"]
    done, told = _estimate(bench, table(tmp_path / "new.csv", [(text, "") for text in french[:80]], label=None))
    assert (told["inside_domains"], "nearest" in told["outside"]) == (False, True)
    assert "Outside the fitted domains" in " ".join(done.out.split())
    _, own = _estimate(bench, table(tmp_path / "own.csv", bench.texts["tweets"][550:630], label=None))
    assert (own["inside_domains"], own["outside"]) == (True, [])

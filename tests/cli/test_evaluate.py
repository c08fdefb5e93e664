"""`leadline evaluate`: the fixed facts, held against `leadline score`; the report; and tables that will not do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.bundle import load_reference
from tests.cli.workbench import columns, facts, leadline, table

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.cli.workbench import Bench

FIXED = ["n", "accuracy", "macro_f1", "depth_f1", "depth_f1_macro", "clipped_weights", "q", "sd"]
TARGET = ["tt", "td", "idd", "scenario"]
LAMBDAS = ["0", "25", "50", "75", "90"]


@pytest.fixture(scope="module")
def place(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with 120 labelled movie reviews, their evaluation, its report and what was printed."""
    root = tmp_path_factory.mktemp("evaluated")
    movies = table(root / "movies.parquet", bench.texts["movies"][:120])
    done = leadline(
        "evaluate", bench.reference, movies, "--html", root / "new" / "r.html", "--json", root / "facts.json"
    )
    assert done.code == 0, done.err
    (root / "out.txt").write_text(done.out, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def told(place: Path) -> dict[str, Any]:
    """The facts."""
    return facts(place / "facts.json")


def test_the_keys_are_as_fixed(told: dict[str, Any]) -> None:
    """Every fixed key is there, the lambdas too; ratios are fractions."""
    assert [*FIXED, *TARGET] == list(told)[: len(FIXED) + len(TARGET)]
    for name in ("depth_f1", "depth_f1_macro"):
        assert list(told[name]) == LAMBDAS
        assert all(0 <= value <= 1 for value in told[name].values())
    assert all(0 <= told[name] <= 1 for name in ("accuracy", "macro_f1", "q", "tt"))
    assert told["scenario"] in {"classic", "observed", "unobserved", "no challenge", "tie"}


def test_the_numbers_follow_from_scores(told: dict[str, Any], place: Path, bench: Bench) -> None:
    """Accuracy, micro Depth F1 and the drops follow from what `leadline score` and `leadline fit` say."""
    done = leadline("score", bench.reference, place / "movies.parquet", "--out", place / "scored.parquet")
    assert done.code == 0, done.err
    scored, labels = columns(place / "scored.parquet"), columns(place / "movies.parquet")["label"]
    right = np.array(scored["prediction"]) == np.array(labels)
    home = facts(bench.root / "fit.json")["accuracy"]["test"]
    assert told["n"] == 120
    assert told["accuracy"] == pytest.approx(right.mean())
    assert told["sd"] == pytest.approx(home - right.mean())
    assert told["sd"] == pytest.approx(told["td"] + told["idd"])
    assert told["td"] == pytest.approx(told["tt"] - told["accuracy"])
    source, depth = load_reference(bench.reference).source.depths, np.array(scored["depth"])
    weight = np.maximum(source.max() - depth, 0)
    assert told["depth_f1"]["0"] == pytest.approx((weight * right).sum() / weight.sum())
    assert told["clipped_weights"] == (depth > source.max()).sum()
    assert told["q"] == pytest.approx((source[:, np.newaxis] < depth).mean(), abs=1e-3)
    assert told["ood"]["knn"] == pytest.approx(np.mean(scored["ood"]))


def test_the_answer_is_printed_first(place: Path) -> None:
    """After the progress the first words are the answer, and everything fits 80 columns."""
    out = (place / "out.txt").read_text(encoding="utf-8")
    assert max(map(len, out.splitlines())) <= 80
    answer = next(line for line in out.splitlines() if line.startswith("The model gets "))
    assert out.index(answer) < out.index("accuracy (ST)")
    assert "of 120 labelled items right" in " ".join(out.split())


def test_the_report_is_written(place: Path, told: dict[str, Any]) -> None:
    """The report lies where it was asked for, in a new directory, with the same accuracy and the ten items."""
    page = (place / "new" / "r.html").read_text(encoding="utf-8")
    assert f"{100 * told['accuracy']:.1f}%" in page
    assert page.count('<td class="text">') == 10
    assert [path.name for path in (place / "new").iterdir()] == ["r.html"]


def test_one_row_is_evaluated(bench: Bench, tmp_path: Path) -> None:
    """A table of one row gives its accuracy, null where nothing can be said, and no TT but the reason."""
    one = table(tmp_path / "one.csv", bench.texts["movies"][:1])
    report = tmp_path / "one.html"
    done = leadline("evaluate", bench.reference, one, "--json", tmp_path / "one.json", "--html", report)
    assert done.code == 0, done.err
    found = facts(tmp_path / "one.json")
    assert list(found)[: len(FIXED)] == FIXED
    assert not set(TARGET) & set(found)
    assert (found["n"], found["depth_f1"]["90"]) == (1, None)
    assert found["accuracy"] in {0, 1}
    assert "50 different texts" in found["reasons"]["tt"]
    assert report.exists()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"label": None}, "column 'label' is missing. The table has: id, text."),
        ({"text": None}, "column 'text' is missing. The table has: id, label."),
        (
            {"label": ["positive", "sideways"]},
            "row 2 has label 'sideways', which the model does not know. Known labels: negative, positive.",
        ),
        ({"label": ["positive", None]}, "row 2 has no label. Remove it or fill it in."),
    ],
)
def test_tables_that_will_not_do(bench: Bench, tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    """A missing column, an unknown label and a missing label end with 2 and name the place."""
    bad = table(tmp_path / "bad.parquet", bench.texts["movies"][:2], **changes)
    done = leadline("evaluate", bench.reference, bad)
    assert (done.code, done.complaints) == (2, [f"{bad}: {complaint}"])


def test_a_table_without_rows(bench: Bench, tmp_path: Path) -> None:
    """An empty table is named."""
    empty = tmp_path / "empty.csv"
    empty.write_text("text,label\n", encoding="utf-8")
    done = leadline("evaluate", bench.reference, empty)
    assert (done.code, done.complaints) == (2, [f"{empty}: the table has no rows"])


def test_the_report_is_checked_before_the_work(tmp_path: Path) -> None:
    """A report that could not be written is refused before anything is opened."""
    done = leadline("evaluate", tmp_path / "absent", tmp_path / "absent.csv", "--html", tmp_path / "report.txt")
    complaint = f"{tmp_path / 'report.txt'}: not a report Leadline writes: the name must end in .html"
    assert (done.code, done.complaints) == (2, [complaint])


def test_help_fits_a_terminal() -> None:
    """`--help` ends with 0 and fits 80 columns."""
    told = leadline("evaluate", "--help")
    assert told.code == 0
    assert max(map(len, told.out.splitlines())) <= 80

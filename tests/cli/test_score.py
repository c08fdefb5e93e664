"""`leadline score`: the fixed columns, row by row, in every format."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agent.tables import read_table
from detectors.table import DETECTORS
from tests.cli.workbench import columns, facts, leadline, table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.workbench import Bench

COLUMNS = [
    "id",
    "prediction",
    "confidence",
    *(f"score_{name}" for name in DETECTORS),
    *(f"p_{name}" for name in DETECTORS),
    "depth",
    "ood",
]


@pytest.fixture(scope="module")
def scored(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Held-out tweets and movie reviews, scored to Parquet, with the facts beside each."""
    root = tmp_path_factory.mktemp("scored")
    for name, rated in (("tweets", bench.texts["tweets"][600:680]), ("movies", bench.texts["movies"][:80])):
        texts = table(root / f"{name}-in.parquet", rated, label=None)
        done = leadline(
            "score", bench.reference, texts, "--out", root / f"{name}.parquet", "--json", root / f"{name}.json"
        )
        assert done.code == 0, done.err
    return root


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_columns_are_as_fixed(kind: str, bench: Bench, scored: Path, tmp_path: Path) -> None:
    """Any format in or out has the fixed columns in their order, the rows' ids and order, and the same values."""
    kept = columns(scored / "tweets.parquet")
    texts = table(tmp_path / f"tweets-in.{kind}", bench.texts["tweets"][600:620], label=None)
    done = leadline("score", bench.reference, texts, "--out", tmp_path / f"out.{kind}")
    assert done.code == 0, done.err
    found = columns(tmp_path / f"out.{kind}")
    assert list(found) == COLUMNS
    for name in ("id", "prediction"):
        assert found[name] == kept[name][:20]
    for name in COLUMNS[2:-1]:
        assert np.array(found[name], float) == pytest.approx(np.array(kept[name][:20]), abs=1e-6)
    assert [str(value).lower() for value in found["ood"]] == [str(value).lower() for value in kept["ood"][:20]]


def test_types_of_the_columns(scored: Path) -> None:
    """In Parquet, `ood` is boolean, names are text and everything else is double precision."""
    types = {field.name: str(field.type) for field in read_table(scored / "tweets.parquet").data.schema}
    assert types.pop("ood") == "bool"
    assert {types.pop(name) for name in ("id", "prediction")} == {"string"}
    assert set(types.values()) == {"double"}


@pytest.mark.parametrize("name", ["tweets", "movies"])
def test_ood_is_the_primary_detectors_verdict(name: str, scored: Path) -> None:
    """`ood` is true exactly where p_knn <= 0.05; p-values are in (0, 1]; the facts hold the same ratios."""
    found, told = columns(scored / f"{name}.parquet"), facts(scored / f"{name}.json")
    assert found["ood"] == [p <= 0.05 for p in found["p_knn"]]
    assert found["depth"] == found["score_depth"]
    assert told["n"] == len(found["id"])
    for detector in DETECTORS:
        p = np.array(found[f"p_{detector}"])
        assert ((p > 0) & (p <= 1)).all()
        assert told["ood"][detector] == (p <= 0.05).mean()
    assert ((np.array(found["confidence"]) >= 0.5) & (np.array(found["confidence"]) <= 1)).all()


def test_movie_reviews_lie_farther_out_than_tweets(scored: Path) -> None:
    """Texts of another kind have a much higher OOD ratio, and less depth, than held-out texts of the source."""
    tweets, movies = facts(scored / "tweets.json"), facts(scored / "movies.json")
    for detector in ("knn", "depth"):
        assert tweets["ood"][detector] < 0.2
        assert movies["ood"][detector] > tweets["ood"][detector] + 0.2
    assert movies["depth_mean"] < tweets["depth_mean"]


def test_rows_do_not_depend_on_their_neighbours(bench: Bench, scored: Path, tmp_path: Path) -> None:
    """A shuffled table gives every item the same row as before."""
    order = np.random.default_rng(5).permutation(80)
    kept, tweets = columns(scored / "tweets.parquet"), bench.texts["tweets"][600:680]
    texts = table(
        tmp_path / "shuffled.parquet", [tweets[row] for row in order], id=[kept["id"][row] for row in order]
    )
    done = leadline("score", bench.reference, texts, "--out", tmp_path / "out.parquet")
    assert done.code == 0, done.err
    found = columns(tmp_path / "out.parquet")
    for name, values in kept.items():
        expected = [values[row] for row in order]
        if isinstance(expected[0], float):
            assert np.array(found[name]) == pytest.approx(np.array(expected), abs=1e-4)
        else:
            assert found[name] == expected


def test_rows_without_ids_are_numbered(bench: Bench, tmp_path: Path) -> None:
    """A table without ids, with nothing but texts, is scored with the rows' numbers as ids."""
    texts = table(tmp_path / "texts.csv", bench.texts["tweets"][600:603], id=None, label=None)
    done = leadline("score", bench.reference, texts, "--out", tmp_path / "new" / "out.jsonl")
    assert done.code == 0, done.err
    assert [str(name) for name in columns(tmp_path / "new" / "out.jsonl")["id"]] == ["1", "2", "3"]


def test_a_very_long_text_is_scored(bench: Bench, tmp_path: Path) -> None:
    """A text of a megabyte is one row like any other."""
    texts = table(tmp_path / "long.parquet", [("word " * 200_000, ""), ("short", "")], label=None)
    done = leadline("score", bench.reference, texts, "--out", tmp_path / "out.csv")
    assert done.code == 0, done.err
    assert len(columns(tmp_path / "out.csv")["id"]) == 2


def test_reference_and_encoder_move_together(bench: Bench, tmp_path: Path) -> None:
    """The encoder is found from the reference, so both work from another place, and from any directory."""
    shutil.copytree(bench.reference, tmp_path / "deep" / "reference")
    (tmp_path / "deep" / "encoder").symlink_to(bench.encoder)
    texts = table(tmp_path / "texts.csv", bench.texts["tweets"][600:603])
    here = os.path.relpath(tmp_path / "deep" / "reference")
    done = leadline("score", here, texts, "--out", tmp_path / "out.csv")
    assert done.code == 0, done.err


def test_a_reference_moved_alone_asks_for_its_encoder(bench: Bench, tmp_path: Path) -> None:
    """A reference without its encoder says where it looked and what mends it: --encoder does."""
    moved = tmp_path / "reference"
    shutil.copytree(bench.reference, moved)
    texts = table(tmp_path / "texts.csv", bench.texts["tweets"][600:603])
    arguments = ("score", moved, texts, "--out", tmp_path / "out.csv")
    lost = leadline(*arguments)
    complaint = (
        f"the encoder of reference {moved} is not at {moved}/../encoder: "
        "say where it is with `encoder:` in the configuration, or --encoder"
    )
    assert (lost.code, lost.complaints) == (2, [complaint])
    assert leadline(*arguments, "--encoder", bench.encoder).code == 0


def test_another_encoder_is_refused(bench: Bench, encoder_fp32: Path, tmp_path: Path) -> None:
    """An encoder that gives other embeddings ends with 3 and both names, and writes nothing."""
    texts = table(tmp_path / "texts.csv", bench.texts["tweets"][600:603])
    done = leadline("score", bench.reference, texts, "--out", tmp_path / "out.csv", "--encoder", encoder_fp32)
    assert done.code == 3
    fitted = facts(bench.root / "fit.json")["encoder"]["sha256"][:12]
    (line,) = done.complaints
    assert f"was fitted with encoder all-MiniLM-L6-v2 ({fitted})" in line
    assert f"but {encoder_fp32} holds all-MiniLM-L6-v2 (" in line
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("out.xlsx", "not a table Leadline writes: the name must end in .parquet, .csv or .jsonl"),
        ("a-file/out.csv", "cannot be written: "),
    ],
)
def test_a_place_that_cannot_be_written(out: str, complaint: str, bench: Bench, tmp_path: Path) -> None:
    """A table that cannot be written ends with 2 and names the place."""
    texts = table(tmp_path / "texts.csv", bench.texts["tweets"][600:603])
    (tmp_path / "a-file").touch()
    done = leadline("score", bench.reference, texts, "--out", tmp_path / out)
    assert done.code == 2
    (line,) = done.complaints
    assert line.startswith(f"{tmp_path / out}: {complaint}")

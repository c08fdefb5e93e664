"""The HTML report: whole, self-contained, safe with any text, and really drawn by a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from plotly.graph_objects import Figure  # type: ignore[import-untyped] # ships no types

from agent.errors import UsageError
from agent.evaluation_report import (
    Calibration,
    CalibrationBin,
    ClassScores,
    Densities,
    DepthPoint,
    DepthScores,
    DetectorScores,
    DissimilarItem,
    Evaluation,
    TargetScore,
)
from agent.interval import Interval
from agent.report import DropEstimate
from exporters.evaluation_plots import figures
from exporters.evaluation_words import answer
from exporters.html_report import check_report_place, report_page, write_report
from tests.exporters.strict_reader import Reader
from tests.services import program

if TYPE_CHECKING:
    from pathlib import Path

NAN = float("nan")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & 'quotes' \"too\""
PLOTS = ["drop", "depth-f1", "depths", "reliability", "detector-knn", "detector-msp"]
HISTOGRAM = Densities((0.0, 1.0, 2.0), (0.25, 0.75), (0.5, 0.5))
ESTIMATE = DropEstimate(
    n=200,
    level=0.9,
    reason="",
    drop=Interval(0.12, 0.05, 0.19),
    accuracy=Interval(0.78, 0.71, 0.85),
    methods={"conf": (0.1, 0.11)},
    metrics={"q": 0.2},
    inside_domains=True,
    outside=(),
)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """An evaluation with hostile texts wherever a text can stand, and numbers that are not known."""
    return Evaluation(
        model=f"model {EVIL}",
        reference_id="0123456789abcdef",
        table=f"{EVIL}.csv",
        labels_tokens=False,
        n=200,
        level=0.95,
        accuracy=Interval(0.75, 0.69, 0.81),
        macro_f1=0.7,
        source_rows=400,
        source_accuracy=Interval(0.9, 0.87, 0.93),
        sd=Interval(0.15, 0.08, 0.22),
        depth=DepthScores(
            (DepthPoint(0, Interval(0.74, 0.68, 0.8), 0.7, 200), DepthPoint(90, Interval(), NAN, 0)), 3, 0.2, ""
        ),
        target=TargetScore(
            Interval(0.8, 0.7, 0.9),
            Interval(0.05, 0.01, 0.09),
            Interval(0.1, 0, 0.2),
            "classic",
            "Annotate it.",
            160,
            10,
        ),
        target_reason="",
        estimate=ESTIMATE,
        calibrations=(
            Calibration("raw", 0.1, (CalibrationBin(150, 0.9, 0.8), CalibrationBin(50, 0.6, 0.6))),
            Calibration("calibrated", 0.02, (CalibrationBin(200, 0.76, 0.75),)),
        ),
        depths=HISTOGRAM,
        detectors=(
            DetectorScores("knn", primary=True, ood_ratio=0.3, threshold=0.5, densities=HISTOGRAM),
            DetectorScores("msp", primary=False, ood_ratio=0.1, threshold=NAN, densities=HISTOGRAM),
        ),
        classes=(ClassScores(EVIL, 200, 180, 0.8, NAN, NAN, EVIL), ClassScores("good", 0, 20, NAN, 0.0, 0.0, "")),
        dissimilar=(DissimilarItem(EVIL, EVIL, EVIL, "good", 0.99, 0.9, 0.0),),
        unavailable={"dice": "it needs features"},
    )


@pytest.fixture(scope="module")
def page(evaluation: Evaluation) -> str:
    """The report's HTML."""
    return report_page(evaluation)


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    """The page, parsed."""
    return Reader(page)


def test_the_structure_is_sound(page: str, read: Reader) -> None:
    """Every tag closes in order, ids are unique, there is one heading of the first level and a language."""
    assert page.startswith("<!doctype html>")
    assert (read.open, read.crooked) == ([], [])
    ids = read.attributes("id")
    assert len(ids) == len(set(ids))
    names = [tag for tag, _ in read.tags]
    assert (names.count("h1"), names.count("main"), names.count("title")) == (1, 1, 1)
    assert read.attributes("lang") == ["en"]


def test_nothing_is_loaded(read: Reader) -> None:
    """No source, no link, no style that fetches; the policy forbids all of it besides."""
    for name in ("src", "href", "srcset", "action", "data"):
        assert read.attributes(name) == []
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in read.tags}
    assert not re.search(r"@import|url\(|https?://", "".join(read.texts["style"]))
    (policy,) = [value for value in read.attributes("content") if value and "default-src" in value]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-")


def test_only_the_two_scripts_may_run(read: Reader) -> None:
    """plotly.js is there once, and both scripts are the ones whose hashes the policy names."""
    scripts = [text for text in read.texts["script"] if text.strip()]
    assert len(scripts) == 3
    assert [len(script) > 10**6 for script in scripts] == [False, True, False]
    (policy,) = [value or "" for value in read.attributes("content") if "default-src" in (value or "")]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts[1:]]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests


def test_texts_are_escaped(page: str, read: Reader) -> None:
    """A text that is a script stays a text, and is shown as it is."""
    assert EVIL not in page
    assert "<script>alert" not in page
    assert not [value for value in read.attributes("onerror") if value]
    assert EVIL in "".join(read.texts["td"])
    assert "alert(1)" in "".join(read.texts["title"])


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_is_there(name: str, evaluation: Evaluation, read: Reader) -> None:
    """Each plot has its place, words for those who cannot see it, and data that plotly accepts, without NaN."""
    (place,) = [attributes for _, attributes in read.tags if attributes.get("id") == f"plot-{name}"]
    assert place["role"] == "img"
    assert place["aria-label"]
    drawn = figures(evaluation)[name]
    assert Figure(drawn).data
    json.dumps(drawn, allow_nan=False)
    written = json.loads(next(text for text in read.texts["script"] if text.strip()))
    assert sorted(written) == sorted(PLOTS)
    assert written[name] == json.loads(json.dumps(drawn))


def test_the_answer_comes_first(page: str, read: Reader) -> None:
    """The first heading is the answer; how sure it is and what it means come before any plot."""
    (headline,) = read.texts["h1"]
    assert headline == (
        "The model gets 75.0% of 200 labelled items right, 15.0 points less than the 90.0% that it reaches on its "
        "source."
    )
    first = page.index('class="plot"')
    for words in ("The drop is real", "Annotate it.", "inside that interval"):
        assert page.index(words) < first


@pytest.mark.parametrize(
    ("sd", "mood", "words"),
    [
        (Interval(0.1, 0.02, 0.2), "worse", "10.0 points less than"),
        (Interval(-0.1, -0.2, -0.02), "better", "10.0 points more than"),
        (Interval(0.1, -0.02, 0.2), "same", "10.0 points less than"),
        (Interval(0.0, -0.1, 0.1), "same", "just as many as on its source"),
    ],
)
def test_the_answer_is_as_sure_as_its_interval(
    evaluation: Evaluation, sd: Interval, mood: str, words: str
) -> None:
    """Only a drop whose interval does not hold zero is called real."""
    told = answer(replace(evaluation, sd=sd))
    assert told.mood == mood
    assert words in told.headline
    assert ("is real" in told.certainty) == (mood != "same")


def test_what_is_not_known_is_said(evaluation: Evaluation) -> None:
    """Without TT, an estimate, or Depth F1, the report says why and draws what there is."""
    depth = replace(evaluation.depth, reason="the depth weights sum to 0")
    refused = replace(ESTIMATE, reason="too few items", drop=Interval(), accuracy=Interval())
    bare = replace(evaluation, target=None, target_reason="it has one class", depth=depth, estimate=refused)
    page = report_page(bare)
    for words in ("it has one class", "the depth weights sum to 0", "too few items", "There is no dice"):
        assert words in page
    assert "depth-f1" not in figures(bare)
    assert [each["name"] for each in figures(bare)["drop"]["data"]] == ["drop, measured"]
    assert ">nan" not in page.lower()
    assert answer(replace(bare, estimate=None)).estimate == ""


def test_a_sequence_labellers_report(evaluation: Evaluation) -> None:
    """Of a sequence labeller, each item tells what share of its tokens is right, and classes count tokens."""
    page = report_page(replace(evaluation, labels_tokens=True))
    assert "0% right</span>" in page
    assert '<th scope="col" class="num">tokens</th>' in page
    assert "75.0% of the tokens of 200 labelled items right" in page


def test_a_warned_estimate_says_so(evaluation: Evaluation) -> None:
    """An estimate that missed, outside the fitted domains, is told with its warning."""
    missed = replace(ESTIMATE, drop=Interval(0.01, 0.0, 0.02), inside_domains=False)
    told = answer(replace(evaluation, estimate=missed)).estimate
    assert "outside that interval" in told
    assert "had warned" in told


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("report.pdf", "the name must end in .html"),
        ("there.html", "is a directory"),
        ("file/report.html", "no directory that can be written to"),
    ],
)
def test_places_that_cannot_be_written(name: str, complaint: str, tmp_path: Path) -> None:
    """A wrong name, a directory and a path through a file are refused before any work."""
    (tmp_path / "there.html").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=complaint):
        check_report_place(tmp_path / name)


def test_written_whole(evaluation: Evaluation, page: str, tmp_path: Path) -> None:
    """The file takes the place of an older one, in directories that are made, and nothing else stays behind."""
    path = tmp_path / "new" / "report.html"
    check_report_place(path)
    for _ in range(2):
        write_report(evaluation, path)
        assert path.read_text(encoding="utf-8") == page
    assert list(path.parent.iterdir()) == [path]
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(evaluation, path)
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser's path; without it the tests are skipped, or fail where services are required."""
    return program("chromium", "chromium")


def test_a_browser_draws_every_plot(chromium: str, page: str, tmp_path: Path) -> None:
    """In Chromium, under the page's own policy, each plot's place holds a drawing in the theme's colours."""
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    arguments: list[Any] = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--window-size=400,800"),
    ]
    done = subprocess.run(
        [chromium, *arguments, "--dump-dom", file.as_uri()],
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    for name in PLOTS:
        (after,) = re.findall(rf'id="plot-{name}"(.*?)</svg>', done.stdout, re.DOTALL)
        assert 'class="main-svg"' in after
    assert done.stdout.count('class="main-svg"') >= 2 * len(PLOTS)
    assert "var(--" not in re.sub(r"<(script|style)[^>]*>.*?</\1>", "", done.stdout, flags=re.DOTALL)

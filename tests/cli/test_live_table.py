"""The live table: windows as they close, and their estimates as they arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.cli.windows import WindowLines
from agent.interval import Interval
from agent.report import DropEstimate, WindowEstimate, WindowReport

if TYPE_CHECKING:
    import pytest

NOON = 1_767_268_800.0
WINDOW = WindowReport("default", "short", NOON - 600, NOON, 120, True, {"knn": 0.05}, 1.0, 0.5, 0.9, {"a": 120})  # noqa: FBT003
SAID = DropEstimate(
    n=120,
    level=0.9,
    reason="",
    drop=Interval(0.041, 0.019, 0.065),
    accuracy=Interval(0.8, 0.77, 0.82),
    methods={},
    metrics={},
    inside_domains=True,
    outside=(),
)
TOO_FEW = replace(SAID, reason="12 items are too few, at least 30 are needed")


def of(estimate: DropEstimate, name: str = "default", end: float = NOON) -> WindowEstimate:
    """The estimate of a short window."""
    return WindowEstimate(name, "short", end, end + 5, estimate)


def printed(capsys: pytest.CaptureFixture[str], *events: WindowReport | WindowEstimate) -> list[str]:
    """The lines that these events give, without the heading."""
    show = WindowLines(("knn",))
    for event in events:
        if isinstance(event, WindowReport):
            show(event)
        else:
            show.estimated(event)
    return capsys.readouterr().out.splitlines()[3:]


def test_an_estimate_follows_its_window(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a line of its own with the time its window ends, points with their bounds, and how sure they are."""
    assert printed(capsys, WINDOW, of(SAID)) == [
        "12:00   120   5.0  1.000  0.50",
        "12:00 accuracy drop (90%): +4.1 [+1.9, +6.5] points",
    ]


def test_an_estimate_outside_the_domains_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reads a drop also reads that the window is unlike what the intervals were fitted on."""
    (line,) = printed(capsys, of(replace(SAID, inside_domains=False, outside=("js",))))
    assert line.endswith("points, unlike every domain")


def test_a_reason_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Why there is no estimate is printed when it is new for a slice, not with every window."""
    lines = printed(capsys, *(of(TOO_FEW, end=NOON + 60 * step) for step in range(3)), of(SAID), of(TOO_FEW))
    assert lines == [
        "12:00 no estimate: 12 items are too few, at least 30 are needed",
        "12:00 accuracy drop (90%): +4.1 [+1.9, +6.5] points",
        "12:00 no estimate: 12 items are too few, at least 30 are needed",
    ]


def test_a_reason_is_said_of_each_slice(capsys: pytest.CaptureFixture[str]) -> None:
    """Slices other than the default one are named, whatever brackets they have in their names."""
    lines = printed(capsys, of(TOO_FEW, "[red]"), of(TOO_FEW, "tenant"), of(SAID, "[/]"))
    assert [line.split("  ")[-1] for line in lines] == ["[red]", "tenant", "[/]"]


def test_an_estimate_fits_into_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """The widest numbers there are leave the line within a terminal's width."""
    (line,) = printed(capsys, of(replace(SAID, drop=Interval(-0.41, -0.9, 0.99), inside_domains=False)))
    assert len(line) <= 80

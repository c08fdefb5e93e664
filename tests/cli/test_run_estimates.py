"""`leadline run`: the accuracy lost, as the terminal, the facts and the metrics tell it."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

from structlog.testing import capture_logs

from agent.assembly import assemble
from agent.cli.run import run_agent
from agent.config import RunConfig, load_config
from agent.interval import Interval
from agent.report import DropEstimate
from tests.cli.workbench import facts, leadline, records, stream

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from agent.reference import Reference
    from agent.window_contents import Estimate, Window
    from tests.cli.workbench import Bench


def lost(reference: Reference, least: int) -> Estimate:
    """Estimates that say how many items there were, and no more."""
    del reference

    def estimate(found: Window) -> DropEstimate:
        few = "too few items" if found.tally.items < least else ""
        drop = Interval() if few else Interval(0.041, 0.019, 0.065)
        return DropEstimate(found.tally.items, 0.9, few, drop, Interval(), {}, {}, inside_domains=True, outside=())

    return estimate


def broken(reference: Reference, least: int) -> Estimate:
    """Estimates that never work."""
    del reference, least

    def estimate(found: Window) -> DropEstimate:
        raise ValueError(found)

    return estimate


def run_config(bench: Bench, directory: Path, **changes: Any) -> Path:  # noqa: ANN401 - any value of a configuration
    """A run over sixty tweets, one every ten seconds of event time: two panes of five minutes."""
    lines = stream(directory / "events.jsonl", records(bench.texts["tweets"][600:660], seconds=10))
    return bench.run_config(directory / "run.yaml", lines, **changes)


def test_the_last_windows_of_a_file_have_their_estimate(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each window that is current at the end was estimated from all its items, and printed after it closed."""
    config = load_config(run_config(bench, tmp_path, estimate__every="1h"), RunConfig)
    stop = Event()
    report, closed = run_agent(assemble(config, stop, lost), config, stop)
    made = report.estimation.estimates
    assert [(each.window, each.end, each.estimate.n) for each in made] == [
        ("long", closed[-1].end, 60),
        ("short", closed[-1].end, 60),
    ]
    out = [line for line in capsys.readouterr().out.splitlines() if line.startswith("09:")]
    assert out[-1] == "09:10 accuracy drop (90%): +4.1 [+1.9, +6.5] points"
    assert out[-2].startswith("09:10    60")


def test_broken_estimates_cost_no_record(bench: Bench, tmp_path: Path) -> None:
    """If no estimate ever works, windows are reported as before, and the failures are counted and logged once."""
    config = load_config(run_config(bench, tmp_path), RunConfig)
    stop = Event()
    with capture_logs() as lines:
        report, closed = run_agent(assemble(config, stop, broken), config, stop)
    assert (report.counts.processed, len(closed)) == (60, 4)
    assert report.estimation.estimates == ()
    assert report.estimation.failures["error"] >= 2
    assert sorted(line["window"] for line in lines if line["event"] == "estimate_failed") == ["long", "short"]


def test_the_facts_of_a_run_hold_its_estimates(bench: Bench, tmp_path: Path) -> None:
    """`--json` has what was said last of each slice's windows, with a number or with the reason for none."""
    done = leadline("run", run_config(bench, tmp_path), "--json", tmp_path / "run.json")
    assert done.code == 0, done.err
    found = facts(tmp_path / "run.json")["estimates"]
    assert [(each["slice"], each["window"], each["n"]) for each in found] == [
        ("default", "long", 60),
        ("default", "short", 60),
    ]
    for each in found:
        assert (each["drop"]["estimate"] is None) == bool(each["reason"])
    assert [line["event"] for line in done.log] == ["started", "stopped"]


def test_a_reference_without_domains_says_so_once(bench: Bench, tmp_path: Path) -> None:
    """Without reference domains no drop can be estimated; the run says why, once, and goes on as before."""
    fitted = tmp_path / "reference"
    done = leadline("fit", bench.fit_config(tmp_path / "fit.yaml", domains=None), "--out", fitted)
    assert done.code == 0, done.err
    done = leadline("run", run_config(bench, tmp_path, reference=fitted), "--json", tmp_path / "run.json")
    assert done.code == 0, done.err
    assert done.out.count("no estimate: ") == 1
    found = facts(tmp_path / "run.json")
    assert found["events"]["processed"] == 60
    assert {bool(each["reason"]) for each in found["estimates"]} == {True}
    assert {each["drop"]["estimate"] for each in found["estimates"]} == {None}

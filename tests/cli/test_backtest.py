"""`leadline backtest`: how far the estimates against a reference can be trusted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.workbench import facts, leadline, table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.workbench import Bench

DOMAIN = {"name", "n", "accuracy", "drop", "predicted", "low", "high"}


def test_the_facts_have_their_fixed_keys(bench: Bench, tmp_path: Path) -> None:
    """`--json` holds each method's errors, the coverage, and each domain's drop beside the predicted one."""
    done = leadline("backtest", bench.reference, "--json", tmp_path / "backtest.json")
    assert done.code == 0, done.err
    text = (tmp_path / "backtest.json").read_text(encoding="utf-8")
    told = json.loads(text)
    assert told.keys() >= {"methods", "coverage", "domains"}
    assert all(each.keys() == {"mae", "max"} for each in told["methods"].values())
    assert told["coverage"].keys() == {"level", "observed", "n"}
    assert [domain["name"] for domain in told["domains"]] == ["amazon", "editorials"]
    for domain in told["domains"]:
        assert domain.keys() == DOMAIN
        assert domain["low"] <= domain["predicted"] <= domain["high"]
    off = [abs(domain["predicted"] - domain["drop"]) for domain in told["domains"]]
    assert told["methods"]["agreement"] == pytest.approx({"mae": sum(off) / 2, "max": max(off)})
    assert "NaN" not in text


def test_a_fit_ends_with_its_backtest(bench: Bench, tmp_path: Path) -> None:
    """`fit` tells the same facts, and shows the same card, as `backtest` does later."""
    done = leadline("backtest", bench.reference, "--json", tmp_path / "backtest.json")
    told, fitted = facts(tmp_path / "backtest.json"), facts(bench.root / "fit.json")
    assert {name: fitted[name] for name in told} == told
    assert done.out.strip() in (bench.root / "fit.out").read_text(encoding="utf-8")


def test_the_card_speaks_to_a_person(bench: Bench) -> None:
    """It says by how many points an estimate may be off, how often that held, and the drop of each domain."""
    done = leadline("backtest", bench.reference)
    shown = " ".join(done.out.split())
    told = facts(bench.root / "fit.json")
    assert f"the estimate is good to ± {100 * told['half_width']:.1f} points (90% interval" in shown
    inside = [domain for domain in told["domains"] if domain["low"] <= domain["drop"] <= domain["high"]]
    assert told["coverage"] == {
        "level": 0.9,
        "observed": len(inside) / len(told["domains"]),
        "n": len(told["domains"]),
    }
    assert f"{len(inside)} had their drop within its interval" in shown
    for domain in told["domains"]:
        assert f"{100 * domain['drop']:+.1f}" in shown
    assert "nan" not in shown


def test_what_cannot_estimate_ends_with_1(bench: Bench, tmp_path: Path) -> None:
    """One domain is too few: the card shows it, says what is missing, and the exit code is 1."""
    config = bench.fit_config(tmp_path / "fit.yaml", domains={"amazon": str(bench.root / "amazon.parquet")})
    assert leadline("fit", config, "--out", tmp_path / "reference").code == 0
    done = leadline("backtest", tmp_path / "reference", "--json", tmp_path / "backtest.json")
    assert done.code == 1
    assert "only 1 labelled domain beside its source" in " ".join(done.out.split())
    (domain,) = facts(tmp_path / "backtest.json")["domains"]
    assert (domain["predicted"], domain["low"], domain["high"]) == (None, None, None)
    assert facts(tmp_path / "backtest.json")["methods"] == {"mean": {"mae": None, "max": None}}


def test_what_is_no_reference_ends_with_2(tmp_path: Path) -> None:
    """A table in a reference's place is a usage error."""
    done = leadline("backtest", table(tmp_path / "texts.csv", [("one", "positive")]))
    assert (done.code, len(done.complaints)) == (2, 1)

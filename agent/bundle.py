"""A reference's bundle: a directory that is written whole or not at all, and verified before it is read."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from agent.artefacts import MANIFEST, read_manifest, verify, write_manifest, written_whole
from agent.errors import ArtefactError, UsageError
from agent.reference import (
    Calibrated,
    Domain,
    EncoderIdentity,
    Reference,
    SourceFacts,
    TaskIdentity,
    Trust,
    Version,
)
from agent.taught import Taught, TaughtRows
from agent.words import Vocabulary
from detectors.calibration import Temperature
from detectors.contract import Head
from detectors.drop import DropEstimator
from detectors.panel import Panel
from detectors.persistence import from_arrays, to_arrays
from detectors.table import DETECTORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

SCHEMA = 3
WHAT = "a reference"
# What tells a reference's manifest from that of an encoder.
PARTS = {"schema", "id", "model", "task", "encoder", "detectors", "primary"}
# What an estimator has beside its panel.
ESTIMATOR_NUMBERS = ("level", "centre", "slope", "error", "items")
# What the estimator learnt from: labelled rows of the source and of each domain.
TAUGHT = "taught.safetensors"
NAN = float("nan")


def save_reference(reference: Reference, directory: Path) -> str:
    """Write the bundle, whole or not at all, and give its id: the same for the same facts and arrays.

    UsageError if the place is somebody else's, or cannot be written.
    """
    check_place(directory)
    try:
        return _save(reference, directory)
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error}") from error


def check_place(directory: Path, made: Version | None = None) -> None:
    """UsageError if something other than a reference is there: an encoder, say, must not be written over.

    With `made`, from which version by which episode a new one is made, another reference neither: only what was
    made of the same by the same.
    """
    if directory.is_dir() and not any(directory.iterdir()):
        return
    if directory.exists() and not ((directory / MANIFEST).is_file() and _is_ours(directory)):
        raise UsageError(f"{directory} already exists and is not a reference: choose another name")
    if directory.exists() and made is not None:
        earlier = read_manifest(directory, WHAT).get("earlier")
        if not isinstance(earlier, list) or earlier[-1:] != [asdict(made)]:
            raise UsageError(
                f"{directory} holds another reference, which an agent may be running on: choose another name, or "
                "write over it with --force"
            )


def _is_ours(directory: Path) -> bool:
    try:
        return read_manifest(directory, WHAT).keys() >= PARTS
    except ArtefactError:
        return False


def _save(reference: Reference, directory: Path) -> str:
    with written_whole(directory) as scratch:
        save_file(_detector_arrays(reference), scratch / "detectors.safetensors")
        save_file(
            {name: fitted.validation_scores for name, fitted in reference.detectors.items()},
            scratch / "validation_scores.safetensors",
        )
        save_file({"depths": reference.source.depths, **reference.source.sample}, scratch / "source.safetensors")
        if reference.head:
            save_file(
                {
                    "weight": np.ascontiguousarray(reference.head.weight),
                    "bias": np.ascontiguousarray(reference.head.bias),
                },
                scratch / "head.safetensors",
            )
        if reference.estimator:
            save_file(_estimator_arrays(reference.estimator), scratch / "estimator.safetensors")
        if reference.taught:
            save_file(_taught_arrays(reference.taught), scratch / TAUGHT)
        _write_json(
            scratch / "words.json",
            {
                "words": reference.source.vocabulary.words,
                "ignored": reference.source.vocabulary.ignored,
                "counts": reference.source.words.tolist(),
            },
        )
        _write_json(scratch / "domains.json", [_domain_facts(domain) for domain in reference.domains])
        facts = _facts(reference)
        write_manifest(scratch, facts)
        identity = _identity(read_manifest(scratch, WHAT))
        write_manifest(
            scratch, facts | {"id": identity, "created": datetime.now(UTC).isoformat(timespec="seconds")}
        )
    return identity


def load_reference(directory: Path) -> Reference:
    """The reference in a bundle, verified before anything in it is parsed; without what its estimator learnt from.

    UsageError if there is none; ArtefactError if it is damaged, changed, or of another schema version.
    """
    manifest = _verified(directory)
    with _parsing(directory):
        return _checked(_parsed(directory, manifest))


def load_taught(directory: Path) -> Reference:
    """The reference with what its estimator learnt from, so that a domain can be added. As `load_reference`."""
    manifest = _verified(directory)
    with _parsing(directory):
        reference = _checked(_parsed(directory, manifest))
        return replace(reference, taught=_parsed_taught(directory, reference))


def _verified(directory: Path) -> dict[str, Any]:
    """The manifest of a bundle whose files are as they were written."""
    manifest = read_manifest(directory, WHAT)
    if "encoder" not in manifest and "detectors" not in manifest:
        raise UsageError(f"{directory} is not a reference: its {MANIFEST} is that of something else")
    if manifest.get("schema") != SCHEMA:
        raise ArtefactError(
            f"{directory} has schema version {manifest.get('schema')}, this Leadline reads version {SCHEMA}: "
            "run `leadline fit` again with this version"
        )
    verify(directory, manifest, "reference")
    with _parsing(directory):
        if manifest.get("id") != _identity(manifest):
            raise ArtefactError(
                f"reference {directory} was changed: {MANIFEST} does not match the id in it. Get it again."
            )
    return manifest


@contextmanager
def _parsing(directory: Path) -> Iterator[None]:
    """Turns what parsing stumbles over into an ArtefactError that names the bundle."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, SafetensorError) as error:
        raise ArtefactError(
            f"reference {directory} is not complete: {error!r}. Run `leadline fit` again."
        ) from error


def _checked(reference: Reference) -> Reference:
    """The reference, if its parts fit together; KeyError or ValueError otherwise."""
    for name in ("depth", reference.primary):
        reference.detectors[name]
    if reference.task.outputs == "head" and reference.head is None:
        raise ValueError("the head is missing")
    return reference


def _facts(reference: Reference) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "model": {"name": reference.model, "labels": list(reference.labels)},
        "task": asdict(reference.task),
        "encoder": asdict(reference.encoder),
        "preset": reference.preset,
        "primary": reference.primary,
        "detectors": list(reference.detectors),
        "unavailable": dict(reference.unavailable),
        "temperature": asdict(reference.temperature),
        "trust": _without_nan(asdict(reference.trust)),
        "home": _without_nan(reference.home),
        "earlier": [asdict(version) for version in reference.earlier],
        "rows": dict(reference.source.rows),
        "accuracy": dict(reference.source.accuracy),
    }


def _identity(manifest: dict[str, Any]) -> str:
    """A short digest of everything in the manifest but the id itself, the time, and where the models lie."""
    facts = {key: value for key, value in manifest.items() if key not in {"id", "created"}}
    for part in ("encoder", "task"):
        facts[part] = {key: value for key, value in manifest[part].items() if key != "path"}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _detector_arrays(reference: Reference) -> dict[str, NDArray[np.generic]]:
    """Every detector's arrays under `<detector>.<field>`."""
    return {
        f"{name}.{field}": array
        for name, fitted in reference.detectors.items()
        for field, array in to_arrays(fitted.detector).items()
    }


def _estimator_arrays(estimator: DropEstimator) -> dict[str, NDArray[np.generic]]:
    return to_arrays(estimator.panel) | {name: np.array(getattr(estimator, name)) for name in ESTIMATOR_NUMBERS}


def _taught_arrays(taught: Taught) -> dict[str, NDArray[np.generic]]:
    """The rows under `<place>.<field>`: 0 is the source, then the domains in their order."""
    parts = (taught.source, *taught.domains.values())
    return {
        f"{place}.{field.name}": np.ascontiguousarray(getattr(rows, field.name))
        for place, rows in enumerate(parts)
        for field in fields(rows)
    }


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def _parsed(directory: Path, manifest: dict[str, Any]) -> Reference:
    arrays = load_file(directory / "detectors.safetensors")
    scores = load_file(directory / "validation_scores.safetensors")
    detectors = {
        name: Calibrated(
            from_arrays(
                DETECTORS[name],
                {key.partition(".")[2]: value for key, value in arrays.items() if key.partition(".")[0] == name},
            ),
            scores[name],
        )
        for name in manifest["detectors"]
    }
    return Reference(
        model=manifest["model"]["name"],
        labels=tuple(manifest["model"]["labels"]),
        task=TaskIdentity(**manifest["task"]),
        encoder=EncoderIdentity(**manifest["encoder"]),
        preset=manifest["preset"],
        primary=manifest["primary"],
        detectors=detectors,
        unavailable=manifest["unavailable"],
        head=_parsed_head(directory),
        temperature=Temperature(**manifest["temperature"]),
        source=_parsed_source(directory, manifest),
        domains=tuple(_domain(row) for row in json.loads((directory / "domains.json").read_text("utf-8"))),
        trust=Trust(**_with_nan(manifest["trust"])),
        estimator=_parsed_estimator(directory),
        home=_with_nan(manifest["home"]),
        earlier=tuple(Version(**row) for row in manifest["earlier"]),
        id=manifest["id"],
    )


def _domain_facts(domain: Domain) -> dict[str, Any]:
    return asdict(domain) | {"shift": _without_nan(domain.shift)}


def _domain(row: dict[str, Any]) -> Domain:
    left_out = row["left_out"]
    known = None if left_out is None else (left_out[0], left_out[1], left_out[2])
    return Domain(**row | {"shift": _with_nan(row["shift"]), "left_out": known})


def _without_nan(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with null for NaN, which JSON does not have."""
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in facts.items()}


def _with_nan(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: NAN if value is None else value for name, value in facts.items()}


def _parsed_head(directory: Path) -> Head | None:
    path = directory / "head.safetensors"
    return Head(**load_file(path)) if path.exists() else None


def _parsed_estimator(directory: Path) -> DropEstimator | None:
    path = directory / "estimator.safetensors"
    if not path.exists():
        return None
    arrays = load_file(path)
    numbers = {name: arrays.pop(name).item() for name in ESTIMATOR_NUMBERS}
    return DropEstimator(panel=from_arrays(Panel, arrays), **numbers)


def _parsed_taught(directory: Path, reference: Reference) -> Taught | None:
    path = directory / TAUGHT
    if not path.exists():
        return None
    arrays = load_file(path)

    def rows(place: int) -> TaughtRows:
        return TaughtRows(*(arrays[f"{place}.{field.name}"] for field in fields(TaughtRows)))

    names = [domain.name for domain in reference.domains]
    return Taught(rows(0), {name: rows(place) for place, name in enumerate(names, start=1)})


def _parsed_source(directory: Path, manifest: dict[str, Any]) -> SourceFacts:
    arrays = load_file(directory / "source.safetensors")
    words = json.loads((directory / "words.json").read_text("utf-8"))
    return SourceFacts(
        rows=manifest["rows"],
        accuracy=manifest["accuracy"],
        depths=arrays.pop("depths"),
        vocabulary=Vocabulary(words["words"], words["ignored"]),
        words=np.array(words["counts"], np.int64),
        sample=arrays,
    )

"""The two configuration files, as closed models: an unknown key or a wrong value is an error that names it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import yaml
from pydantic import Field, ValidationError, model_validator

from agent.alert_config import AlertsConfig, AnnotationConfig
from agent.errors import UsageError
from agent.exporter_config import ExportersConfig
from agent.source_config import DeadLettersConfig, SourceConfig
from agent.strict import Duration, Name, Strict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

MOST_PANES = 1000
# What XML, in which class names are given to Label Studio, cannot hold or gives back as something else.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class ModelConfig(Strict):
    """The task model, and where its outputs come from."""

    name: Name
    labels: tuple[str, ...] = Field(min_length=2, description="Class names, in the order of the logits.")
    outputs: Literal["head", "table", "onnx"] = Field(
        description="head: train a logistic head on the embeddings; table: logits come with the tables; "
        "onnx: run the task model in `path`."
    )
    task: Literal["classification", "tokens"] = Field(
        "classification",
        description="classification: one class a text; tokens: one a token, whose logits come with the tables.",
    )
    path: Path | None = Field(None, description="onnx only: directory with model.onnx and tokenizer.json.")
    head: Path | None = Field(
        None, description="table and onnx: safetensors file with the head's `weight` (C, d) and `bias` (C,)."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("labels must all be different")
        if _CONTROL.search("".join(self.labels)):
            raise ValueError("labels must hold no control characters: what people label with cannot show them")
        if (self.outputs == "onnx") != (self.path is not None):
            raise ValueError("`path` goes with `outputs: onnx`, and only with it")
        if self.outputs == "head" and self.head is not None:
            raise ValueError("`outputs: head` trains the head itself: remove `head`, or choose `table` or `onnx`")
        if self.task == "tokens" and self.outputs != "table":
            raise ValueError(
                "`task: tokens` needs `outputs: table`: the logits of every token come with the tables"
            )
        if self.task == "tokens" and self.head is not None:
            raise ValueError("`task: tokens` takes no `head`: no detector uses that of a sequence labeller")
        return self


class SourceTables(Strict):
    """The labelled tables of the training domain."""

    train: Path
    validation: Path
    test: Path


class DetectorsConfig(Strict):
    """Which hyper-parameters the detectors use, and which one decides `ood`."""

    preset: Literal["original", "baran2023"] = "original"
    primary: Literal["msp", "energy", "react", "klm", "gradnorm", "dice", "vim", "knn", "depth"] = "knn"
    bank: int = Field(50_000, ge=1, description="Most rows kept for the nearest-neighbour search.")


class EncodingConfig(Strict):
    """How texts are encoded: how many at once, on how many threads, on which device."""

    batch: int = Field(64, ge=1, le=512)
    threads: int = Field(0, ge=0, description="0: all cores.")
    device: Literal["auto", "cpu", "gpu"] = Field("auto", description="gpu: fail rather than use the CPU.")


class FitConfig(Strict):
    """`leadline fit`: what to freeze into a reference."""

    model: ModelConfig
    encoder: Path
    source: SourceTables
    domains: dict[Name, Path] = Field(default_factory=dict, description="Labelled reference domains.")
    detectors: DetectorsConfig = DetectorsConfig()
    encoding: EncodingConfig = EncodingConfig()


class WindowsConfig(Strict):
    """Event-time panes and the two windows merged from them."""

    pane: Duration = 600.0
    short: Duration = 3600.0
    long: Duration = 21600.0
    min_items: int = Field(100, ge=1, description="Fewer items than this give no ratios.")
    lateness: Duration | None = Field(
        None, description="How long a pane waits for late records; one pane by default."
    )

    @model_validator(mode="after")
    def _multiples(self) -> Self:
        if not self.pane <= self.short <= self.long:
            raise ValueError("windows must grow: pane <= short <= long")
        if self.pane % 1:
            raise ValueError("pane must be a whole number of seconds")
        if self.short % self.pane or self.long % self.pane:
            raise ValueError("short and long must be whole multiples of pane")
        if self.long / self.pane > MOST_PANES:
            raise ValueError(f"long may be at most {MOST_PANES} panes: every one of them is kept")
        return self


class EstimateConfig(Strict):
    """How often windows that have ended are looked at for a drop of accuracy, beside the scoring."""

    every: Duration = Field(60.0, ge=1, le=86_400, description="Windows that ended meanwhile are estimated then.")


class SlicesConfig(Strict):
    """A bounded tag of each record that windows are kept apart by."""

    field: Literal["slice", "model_version"] = "slice"
    max: int = Field(20, ge=1, le=100, description="Further values are counted together as `__other__`.")


class StateConfig(Strict):
    """Where panes and positions survive a restart."""

    path: Path
    every: Duration = 10.0


class RunConfig(Strict):
    """`leadline run`: the agent."""

    reference: Path
    encoder: Path | None = Field(None, description="Where the reference's encoder is now, if it has moved.")
    source: SourceConfig
    dead_letters: DeadLettersConfig | None = None
    windows: WindowsConfig = WindowsConfig()
    estimate: EstimateConfig = EstimateConfig()
    alerts: AlertsConfig = AlertsConfig()
    annotation: AnnotationConfig | None = None
    slices: SlicesConfig = SlicesConfig()
    encoding: EncodingConfig = EncodingConfig()
    state: StateConfig | None = None
    exporters: ExportersConfig = ExportersConfig()

    @model_validator(mode="after")
    def _connected(self) -> Self:
        letters = self.dead_letters
        if letters and letters.topic and not (letters.connection or self.source.kafka):
            raise ValueError("`dead_letters.topic` needs `dead_letters.connection`: the source is not Kafka")
        kafka = self.source.kafka
        if letters and kafka and letters.topic in kafka.topics and not letters.connection:
            raise ValueError("`dead_letters.topic` is one of the source's topics: each letter would come back")
        return self


Config = TypeVar("Config", FitConfig, RunConfig)


def load_config(path: Path, kind: type[Config]) -> Config:
    """The checked configuration, with relative paths taken from the file's directory. UsageError otherwise."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path}: expected keys and values at the top, for example `model:`")
    try:
        config = kind.model_validate(content)
    except ValidationError as error:
        raise UsageError("\n".join(f"{path}: {line}" for line in _findings(error))) from error
    return _anchored(config, path.parent)


def _findings(error: ValidationError) -> Iterable[str]:
    """One line a mistake: where, what, and what was found there."""
    items = error.errors()
    for item in items:
        if item["type"] == "too_short" and any(_is_below(each, item) for each in items):
            continue  # pydantic counts only those of its parts that are right
        where = ".".join(str(part) for part in item["loc"]) or "configuration"
        if item["type"] == "extra_forbidden":
            yield f"{where}: unknown key. Remove it, or check its spelling."
        elif item["type"] == "missing":
            yield f"{where}: missing. It has no default."
        elif item["type"] == "tuple_type":
            yield f"{where}: expected a list, such as [{_found(item['loc'], item['input'])}]"
        elif item["type"] == "too_short":
            yield f"{where}: expected at least {item['ctx']['min_length']}, found {item['ctx']['actual_length']}"
        else:
            found = _found(item["loc"], item["input"])
            yield f"{where}: {item['msg'].removeprefix('Value error, ')} (found: {found})"


def _is_below(item: ErrorDetails, above: ErrorDetails) -> bool:
    where = above["loc"]
    return len(item["loc"]) > len(where) and item["loc"][: len(where)] == where


def _found(where: tuple[int | str, ...], value: object) -> str:
    """A wrong value as it was written; of a part that talks to others only the keys: a URL may hold a password."""
    if isinstance(value, str) and "@" in value:
        return "not shown, it may hold a password"
    if isinstance(value, dict) and (not where or where[0] in {"source", "dead_letters", "exporters"}):
        return f"keys {', '.join(map(str, value))}" if value else "no keys"
    return repr(value)


def _anchored(config: Config, base: Path) -> Config:
    """The same configuration with every relative path taken from `base`; `-` stays standard input."""

    def anchor(value: Any) -> Any:  # noqa: ANN401 - walks any JSON-like value
        if isinstance(value, Path):
            return value if value == Path("-") else base / value
        if isinstance(value, dict):
            return {key: anchor(item) for key, item in value.items()}
        return value

    return type(config).model_validate(anchor(config.model_dump()))

"""The two configuration files, as closed models: an unknown key or a wrong value is an error that names it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")


def seconds(value: object) -> object:
    """A number of seconds from `90`, `"90s"`, `"5m"`, `"6h"` or `"1d"`. ValueError for other text.

    >>> [seconds(text) for text in (90, "90s", "5m", "6h", "1.5d")]
    [90, 90.0, 300.0, 21600.0, 129600.0]
    """
    if not isinstance(value, str | bool):
        return value
    match = DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError("expected a duration such as 90, 90s, 5m, 6h or 1d")
    return float(match[1]) * SECONDS[match[2]]


Duration = Annotated[float, BeforeValidator(seconds), Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]


MOST_PANES = 1000


class Strict(BaseModel):
    """A closed, frozen part of a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


class FileSourceConfig(Strict):
    """Records from a table, JSON Lines, or standard input (`-`)."""

    path: Path
    rate: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Records a second; without it, as fast as they are scored."
    )
    loop: bool = Field(default=False, description="Start again at the end; record times are then arrival times.")


class SourceConfig(Strict):
    """Exactly one source."""

    file: FileSourceConfig


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


class PrometheusConfig(Strict):
    """The HTTP port of /metrics, /livez and /readyz. Port 0 takes any free one."""

    host: str = "127.0.0.1"
    port: int = Field(9108, ge=0, le=65535)


class ExportersConfig(Strict):
    """What leaves the agent."""

    prometheus: PrometheusConfig = PrometheusConfig()


class RunConfig(Strict):
    """`leadline run`: the agent."""

    reference: Path
    encoder: Path | None = Field(None, description="Where the reference's encoder is now, if it has moved.")
    source: SourceConfig
    windows: WindowsConfig = WindowsConfig()
    estimate: EstimateConfig = EstimateConfig()
    slices: SlicesConfig = SlicesConfig()
    encoding: EncodingConfig = EncodingConfig()
    state: StateConfig | None = None
    exporters: ExportersConfig = ExportersConfig()


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
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"]) or "configuration"
        if item["type"] == "extra_forbidden":
            yield f"{where}: unknown key. Remove it, or check its spelling."
        elif item["type"] == "missing":
            yield f"{where}: missing. It has no default."
        else:
            yield f"{where}: {item['msg'].removeprefix('Value error, ')} (found: {item['input']!r})"


def _anchored(config: Config, base: Path) -> Config:
    """The same configuration with every relative path taken from `base`; `-` stays standard input."""

    def anchor(value: Any) -> Any:  # noqa: ANN401 - walks any JSON-like value
        if isinstance(value, Path):
            return value if value == Path("-") else base / value
        if isinstance(value, dict):
            return {key: anchor(item) for key, item in value.items()}
        return value

    return type(config).model_validate(anchor(config.model_dump()))

"""Running a text model: tokenizer and ONNX graph together, texts in, rows of numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as native

from agent.encoder.checked import CheckedModel
from agent.encoder.tokens import Limits, TextTokenizer, batches
from agent.errors import ArtefactError, InferenceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from agent.encoder.checked import Rounding
    from agent.encoder.tokens import Tokens

Device = Literal["auto", "cpu", "gpu"]

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
CPU_LIMITS = Limits(items=64, tokens=2_048)  # more tokens leave the cache: measured slower
CUDA_LIMITS = Limits(items=512, tokens=65_536)
CHUNK = 1_024  # texts tokenised at once: bounds memory, long enough to find neighbours of one length
DTYPES: dict[str, type[np.int64 | np.int32]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
FEEDS = ("input_ids", "attention_mask", "token_type_ids")
FAILURES = (
    native.EPFail,
    native.Fail,
    native.InvalidArgument,
    native.InvalidGraph,
    native.InvalidProtobuf,
    native.NotImplemented,
    native.RuntimeException,
    RuntimeError,
)


@dataclass(frozen=True)
class Runtime:
    """Where to run. ``threads`` 0 means every core."""

    threads: int = 0
    device: Device = "auto"


@dataclass(frozen=True)
class TextOutputs:
    """Row-aligned with the texts: (n, width) float32 arrays by name, and (n,) whether a text was cut."""

    outputs: dict[str, NDArray[np.float32]]
    truncated: NDArray[np.bool_]


class TextSession:
    """A loaded text model. ``run`` is pure: a row depends on its text alone, within 1e-5, not on its batch.

    ``output_names`` are the model's outputs with one row a text; ``widths`` their columns; ``provider`` is
    what onnxruntime really runs on.
    """

    def __init__(
        self,
        model: CheckedModel,
        tokenizer: TextTokenizer,
        runtime: Runtime | None = None,
    ) -> None:
        """Runs one text, so a model that cannot run fails here."""
        self._tokenizer, self._name = tokenizer, model.name
        self._session = _open(model, runtime or Runtime())
        self.provider: str = self._session.get_providers()[0]
        self._inputs = _inputs(self._session, model.name)
        self._limits = _limits(model.rounding, self.provider)
        self.output_names: tuple[str, ...] = tuple(node.name for node in self._session.get_outputs())
        probe = self._run(tokenizer.encode(["a"]), np.array([0]))
        self.widths = {output: value.shape[1] for output, value in probe.items() if value.ndim == 2}  # noqa: PLR2004
        self.output_names = tuple(self.widths)  # a token-level output is not computed again

    @classmethod
    def load(
        cls,
        directory: Path,
        *,
        max_tokens: int | None = None,
        runtime: Runtime | None = None,
    ) -> Self:
        """Open ``model.onnx`` and ``tokenizer.json`` of a directory. UsageError where one is missing.

        Without ``max_tokens`` the tokenizer's own limit holds, or 512 where it has none.
        """
        tokenizer = read_file(directory, "tokenizer.json")
        model = CheckedModel.of(read_file(directory, "model.onnx"), str(directory / "model.onnx"))
        return cls(model, TextTokenizer(tokenizer, str(directory / "tokenizer.json"), max_tokens), runtime)

    def run(
        self,
        texts: Sequence[str],
        pairs: Sequence[str | None] | None = None,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> TextOutputs:
        """Outputs of every text, in order. ``on_progress`` gets the number done so far, after each batch."""
        outputs = {name: np.empty((len(texts), width), np.float32) for name, width in self.widths.items()}
        truncated = np.zeros(len(texts), dtype=np.bool_)
        done = 0
        for start in range(0, len(texts), CHUNK):
            chunk = slice(start, start + CHUNK)
            tokens = self._tokenizer.encode(texts[chunk], None if pairs is None else pairs[chunk])
            truncated[chunk] = tokens.truncated
            for rows in batches(tokens.lengths, self._limits):
                for name, found in self._run(tokens, rows).items():
                    outputs[name][start + rows] = found
                done += len(rows)
                if on_progress is not None:
                    on_progress(done)
        return TextOutputs(outputs, truncated)

    def _run(self, tokens: Tokens, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float32]]:
        feed = tokens.feed(rows)
        given = {name: feed[name].astype(dtype, copy=False) for name, dtype in self._inputs.items()}
        try:
            found = self._session.run(self.output_names, given)
        except FAILURES as error:
            raise InferenceError(
                f"{self._name} failed while running: the model does not accept its inputs"
            ) from error
        return dict(zip(self.output_names, found, strict=True))


def read_file(directory: Path, name: str) -> bytes:
    """The file's content; UsageError says what the directory should hold."""
    try:
        return (directory / name).read_bytes()
    except OSError as error:
        raise UsageError(f"{directory} has no readable {name}; expected model.onnx and tokenizer.json") from error


def _open(model: CheckedModel, runtime: Runtime) -> Any:  # noqa: ANN401 - onnxruntime ships no types
    options = ort.SessionOptions()
    options.intra_op_num_threads = runtime.threads
    # Idle threads would spin on cores that scoring, and the model server next door, could use.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors; its warnings are about graph rewriting
    available = ort.get_available_providers()
    # TF32 keeps 10 bits of a product: a text's result would change with its batch.
    wanted = [(CUDA, {"use_tf32": "0"})] if CUDA in available and runtime.device != "cpu" else []
    try:
        session = ort.InferenceSession(model.data, options, providers=[*wanted, CPU])
    except FAILURES as error:
        raise ArtefactError(f"{model.name} cannot be loaded: damaged, or made for a newer onnxruntime") from error
    if runtime.device == "gpu" and session.get_providers()[0] != CUDA:
        raise UsageError(
            "device is gpu but no GPU can be used: install the gpu extra (onnxruntime-gpu) and a matching CUDA, "
            "or choose device auto or cpu",
        )
    if session.get_providers()[0] == CPU:
        # onnxruntime keeps the file's bytes to open it once more on another provider; there is no other here.
        session._model_bytes = None  # noqa: SLF001
    return session


def _inputs(session: Any, name: str) -> dict[str, type[np.int64 | np.int32]]:  # noqa: ANN401 - as _open
    """The declared inputs, with the integer type each takes."""
    declared = {node.name: node.type for node in session.get_inputs()}
    if unknown := sorted(set(declared) - set(FEEDS)):
        raise UsageError(
            f"{name} needs inputs Leadline does not make: {', '.join(unknown)}; known: {', '.join(FEEDS)}"
        )
    if wrong := sorted(key for key, kind in declared.items() if kind not in DTYPES):
        raise UsageError(f"{name} must take token ids as integers; not so: {', '.join(wrong)}")
    return {key: DTYPES[kind] for key, kind in declared.items()}


def _limits(rounding: Rounding, provider: str) -> Limits:
    """Batch limits that keep rows independent: rounding turns padding's last-digit noise into whole steps."""
    limits = CUDA_LIMITS if provider == CUDA else CPU_LIMITS
    match rounding:
        case "none":
            return limits
        case "fixed":
            return Limits(limits.items, limits.tokens, equal_lengths=True)
        case "per-batch":
            return Limits(items=1, tokens=limits.tokens)

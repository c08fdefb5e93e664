"""The encoder: texts to unit vectors, the ground on which every distance is measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from agent.encoder.checked import CheckedModel
from agent.encoder.files import read_encoder
from agent.encoder.pooling import OUTPUT, normalise, pool_tokens
from agent.encoder.session import Runtime, TextSession
from agent.encoder.tokens import TextTokenizer
from agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from onnx import ModelProto

    from agent.encoder.pooling import Pooling
    from agent.encoder.session import Device

TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
SENTENCE_OUTPUT = "sentence_embedding"


@dataclass(frozen=True)
class Encoded:
    """Row-aligned with the texts."""

    embedding: NDArray[np.float32]  # (n, dimension), unit length
    truncated: NDArray[np.bool_]  # (n,), some of the text was not read


@dataclass(frozen=True)
class Encoder:
    """A loaded encoder. ``sha256`` is its identity: equal where the embeddings are."""

    name: str
    sha256: str
    dimension: int
    max_tokens: int
    provider: str
    session: TextSession

    @classmethod
    def load(cls, directory: Path, *, threads: int = 0, device: Device = "auto") -> Self:
        """Verify and open a directory. UsageError: incomplete or unsupported; ArtefactError: damaged or unsafe."""
        files = read_encoder(directory)
        finish = partial(_end_in_embedding, pooling=files.pooling, directory=directory)
        model = CheckedModel.of(files.model, str(directory / "model.onnx"), finish)
        tokenizer = TextTokenizer(files.tokenizer, str(directory / "tokenizer.json"), files.max_tokens)
        session = TextSession(model, tokenizer, Runtime(threads, device))
        if OUTPUT not in session.widths:
            raise UsageError(f"{directory}: the model does not give one vector a text")
        return cls(
            name=files.name,
            sha256=files.sha256,
            dimension=session.widths[OUTPUT],
            max_tokens=tokenizer.max_tokens,
            provider=session.provider,
            session=session,
        )

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str | None] | None = None,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> Encoded:
        """Embed, in order. Pure: a row depends on its text (and pair) alone."""
        found = self.session.run(texts, pairs, on_progress=on_progress)
        return Encoded(found.outputs[OUTPUT], found.truncated)


def _end_in_embedding(model: ModelProto, pooling: Pooling, directory: Path) -> bool:
    """Add what the graph lacks of pooling and normalisation before ``embedding``; whether anything was."""
    outputs = [output.name for output in model.graph.output]
    if OUTPUT in outputs:
        return False
    if SENTENCE_OUTPUT in outputs:
        normalise(model, SENTENCE_OUTPUT)
        return True
    tokens = [name for name in TOKEN_OUTPUTS if name in outputs]
    if not tokens:
        known = ", ".join((OUTPUT, SENTENCE_OUTPUT, *TOKEN_OUTPUTS))
        raise UsageError(f"{directory}: no output of the model is one of {known}; it has: {', '.join(outputs)}")
    pool_tokens(model, tokens[0], pooling)
    return True

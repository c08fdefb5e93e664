"""A reference that scores thousands of texts a second, the same to the last bit in whatever batch a text comes.

The encoder's word vectors are small integers, so that every sum in it is exact in any order. What differs between
an agent that was killed twenty times and one that was left alone is then the agent's doing, not rounding.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.cli.workbench import LABELS, leadline, table, write_config

if TYPE_CHECKING:
    from pathlib import Path

# Words that the tokenizer knows; texts are drawn from them. The two halves lean to one class each.
VOCABULARY = tuple(f"{first}{second}" for first in "bdfgklmn" for second in ("a", "e", "i", "o", "u", "ay", "ow"))
SPECIAL = ("[PAD]", "[UNK]")
DIMENSIONS = 16
LONGEST = 12
ROWS = {"train": 300, "validation": 150, "test": 100, "near": 100, "far": 100}


@dataclass(frozen=True)
class Small:
    """Where the encoder and the reference are; not to be changed."""

    root: Path

    @property
    def reference(self) -> Path:
        """The fitted bundle."""
        return self.root / "reference"


def made(root: Path) -> Small:
    """The encoder, and a reference fitted with it."""
    _write_encoder(root / "encoder")
    chance = random.Random(4)  # noqa: S311 - texts, not secrets
    for name, rows in ROWS.items():
        labels = [LABELS[chance.random() < 0.5] for _ in range(rows)]
        lean = 0.6 if name == "far" else 0.8
        table(root / f"{name}.parquet", [(text(chance, label, lean), label) for label in labels])
    config = {
        "model": {"name": "sentiment", "labels": list(LABELS), "outputs": "head"},
        "encoder": str(root / "encoder"),
        "source": {name: str(root / f"{name}.parquet") for name in ("train", "validation", "test")},
        "domains": {name: str(root / f"{name}.parquet") for name in ("near", "far")},
    }
    done = leadline("fit", write_config(root / "fit.yaml", config, {}), "--out", root / "reference")
    assert done.code == 0, done.err
    return Small(root)


def text(chance: random.Random, label: str | None = None, lean: float = 0.8) -> str:
    """A text of this class, or of any, that hardly ever comes twice."""
    half = len(VOCABULARY) // 2
    first = VOCABULARY[:half] if (label or chance.choice(LABELS)) == LABELS[0] else VOCABULARY[half:]
    return " ".join(
        chance.choice(first) if chance.random() < lean else chance.choice(VOCABULARY)
        for _ in range(chance.randint(6, LONGEST - 2))
    )


def _write_encoder(directory: Path) -> None:
    words = {word: number for number, word in enumerate((*SPECIAL, *VOCABULARY))}
    vectors = np.random.default_rng(7).integers(-7, 8, (len(words), DIMENSIONS)).astype(np.float32)
    shape = ["batch", "length"]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "small",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, DIMENSIONS])],
        [numpy_helper.from_array(vectors, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=SPECIAL[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(LONGEST)
    directory.mkdir(parents=True)
    (directory / "model.onnx").write_bytes(model.SerializeToString())
    (directory / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")

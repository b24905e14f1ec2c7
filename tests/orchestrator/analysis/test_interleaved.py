"""Arms that are timed in slices are compared over the rounds in which they took turns."""

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
from orchestrator.analysis.stopping import half_widths
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    Block,
    FinishedTrial,
    Outcome,
    SliceRecord,
    SweepIdentity,
    make_trial,
)
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import CPU, GPU, changed, sweep, trial

BASE = Arm("tensorflow/portable", in_slices(CPU))
XLA = Arm("tensorflow/portable+xla", in_slices(CPU))
ON_GPU = Arm("tensorflow/portable", in_slices(GPU))
IDENTITY = SweepIdentity("sure", 1, "image_rows", {}, {}, 0, "d")


def raced(
    apart: Sequence[int] = (), blocks: int = 8, arms: Sequence[Arm] = (BASE, XLA)
) -> SweepRecord:
    """Arms 1.25 times as fast as the first; in the blocks `apart`, raced later, 10 times."""

    def one(arm: Arm, block: int) -> dict[str, Any]:
        late = block in apart and arm != arms[0]
        fast = 1 if arm == arms[0] else 10 if late else 1.25
        wobble = 1 + 0.001 * (block % 3)
        race = f"{block + (0.5 if late else 0):.3f}"
        metrics = {"step_ms": 10 * wobble / fast, "compile_s": 1.0 if arm == arms[0] else 2.0}
        return {"metrics": metrics, "round_id": race}

    trials = [trial(arm, block, **one(arm, block)) for block in range(blocks) for arm in arms]
    return sweep(trials, arms)


def only(record: SweepRecord) -> Comparison:
    (found,) = summarise(record).comparisons
    return found


def test_a_round_whose_arms_did_not_take_turns_is_left_out_and_counted() -> None:
    found = only(raced(apart=(1, 4)))
    assert [pair.block for pair in found.pairs] == [0, 2, 3, 5, 6, 7]
    assert found.not_interleaved_rounds == 2
    assert found.speedup is not None
    assert found.speedup.value == pytest.approx(1.25)
    said = " ".join(render(summarise(raced(apart=(1, 4))), "text").split())
    assert "2 rounds are excluded, because the arms did not take turns" in said
    assert "did not take turns" not in render(summarise(raced()), "text")
    assert only(raced()).not_interleaved_rounds == 0


def test_one_with_no_round_together_has_no_verdict() -> None:
    found = only(raced(apart=range(8)))
    assert (found.pairs, found.verdict, found.not_interleaved_rounds) == ((), "inconclusive", 8)


def test_arms_on_other_hardware_have_races_of_their_own() -> None:
    found = only(raced(apart=(1, 4), arms=(ON_GPU, XLA)))
    assert (len(found.pairs), found.not_interleaved_rounds) == (8, 0)


def test_arms_on_different_nodes_are_compared_block_by_block() -> None:
    record = raced(apart=(1, 4))
    trials = [changed(each, node="a" if each.arm == BASE else "b") for each in record.trials]
    found = only(replace(record, trials=tuple(trials)))
    assert (len(found.pairs), found.not_interleaved_rounds) == (8, 0)


def test_a_ranking_rests_on_the_same_rounds() -> None:
    (ranking,) = rankings(match(raced(apart=(1, 4))), "step_ms", 0.02, {})
    assert ranking.blocks == 6
    assert ranking.behind[0].ratio is not None
    assert ranking.behind[0].ratio.value == pytest.approx(1.25)
    assert rankings(match(raced(apart=range(8))), "step_ms", 0.02, {}) == ()


def test_a_break_even_rests_on_the_same_rounds() -> None:
    record = raced(apart=(1, 4))
    (found,) = break_evens(match(record), pick_baseline(record, None))
    assert [each.block for each in found.blocks] == [0, 2, 3, 5, 6, 7]


def test_blocks_are_enough_by_the_rounds_that_were_timed_together() -> None:
    def ended(each: int, arm: Arm, race: str) -> FinishedTrial:
        ms = {"step_ms": 10.0 * (1 + 0.01 * (each % 2)) if arm == BASE else 8.0}
        return FinishedTrial(
            make_trial(IDENTITY, Block(each, {"units": each}), arm, 0),
            Outcome("complete", 0.0, 1.0, metrics=ms, round_id=race),
        )

    together = [ended(block, arm, str(block)) for block in range(6) for arm in (BASE, XLA)]
    torn = [*together[:-1], ended(5, XLA, "later")]
    known, unknown = (
        half_widths(each, (BASE, XLA), AutoBlocks(0.01, 6, 12), None)[XLA]
        for each in (together, torn)
    )
    assert known is not None
    assert unknown is None


def sliced(arm: Arm, block: int) -> FinishedTrial:
    slices = (SliceRecord(28, 0.252),) * 3
    metrics = {"step_ms": 9.0, "queue_s": 40.0, "load_s": 1.0, "timed_s": 0.75, "cost_usd": 0.1}
    return trial(arm, block, metrics=metrics, slices=slices, round_id=str(block))


def test_slices_are_no_epochs_and_waiting_for_rivals_is_no_phase() -> None:
    record = sweep([sliced(arm, block) for block in range(6) for arm in (BASE, XLA)], (BASE, XLA))
    summary = summarise(record)
    assert summary.learning == ()
    assert "epoch_s" not in {each.metric for each in summary.matrix.measures}
    assert summary.phases[0].seconds == {"load_s": 1.0, "timed_s": 0.75}
    shown = " ".join(render(summary, "text").split())
    assert "epoch (s)" not in shown
    assert "slice_step_ms" not in shown
    assert "waited for each other" in shown
    assert "share the cost of their round equally" in shown

"""Sweeps as reports read them, from trials."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial, ImpossibleArm
from tests.building.arms import CUDNN, PORTABLE, XLA
from tests.building.trials import build_trial, change_trial


def build_record(
    trials: Sequence[FinishedTrial],
    arms: Sequence[Arm] = (PORTABLE, XLA),
    *,
    objectives: Mapping[str, str] | None = None,
    **changes: Any,
) -> SweepRecord:
    """Return a sweep of these trials, with as many blocks and repeats as they have."""
    blocks = max((t.block for t in trials), default=-1) + 1
    repeats = max((t.repeat for t in trials), default=0) + 1
    fields: dict[str, Any] = {
        "name": "quickstart",
        "generation": 1,
        "run_id": "parent-run",
        "workload": "image_rows",
        "objectives": objectives or {"val_accuracy": "maximize", "step_ms": "minimize"},
        "arms": tuple(arms),
        "impossible": (ImpossibleArm(CUDNN, "cuDNN kernels need an NVIDIA GPU"),),
        "blocks": blocks,
        "repeats": repeats,
        "expected_trials": blocks * repeats * len(arms),
        "environment": {"tensorflow": "2.21.0", "python": "3.11.9"},
        **changes,
    }
    return SweepRecord(trials=tuple(trials), **fields)


def build_paired_record(
    blocks: int, ratio: Callable[[int], float] = lambda block: 1.25, **changes: Any
) -> SweepRecord:
    """Return a sweep with PORTABLE at 10 ms a step and XLA at 10 / ratio(block)."""
    trials = [
        build_trial(block, arm, step_ms=10.0 if arm == PORTABLE else 10.0 / ratio(block))
        for block in range(blocks)
        for arm in (PORTABLE, XLA)
    ]
    return build_record(trials, **changes)


def disturb_blocks(record: SweepRecord, blocks: Mapping[Arm, Sequence[int]]) -> SweepRecord:
    """Return the sweep with low clocks in these blocks of each arm."""
    trials = [
        change_trial(t, disturbance={"low_clocks": 15.0}) if t.block in blocks.get(t.arm, ()) else t
        for t in record.trials
    ]
    return replace(record, trials=tuple(trials))

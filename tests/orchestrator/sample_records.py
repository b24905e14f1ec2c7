"""Sweep records made by hand for the report's tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orchestrator.core.arms import RequestedArm
from orchestrator.core.records import SweepRecord, TrialRecord
from orchestrator.core.trial import Arm, ImpossibleArm, Kernel
from tests.orchestrator.sample_hardware import on_cpu, on_gpu

CPU, GPU = on_cpu(), on_gpu()
PORTABLE = Arm("tensorflow/portable", CPU)
XLA = Arm("tensorflow/portable+xla", CPU)
RELU = Arm("tensorflow/portable+relu", CPU)
UNROLL = Arm("tensorflow/portable+unroll", CPU)
CUDNN = RequestedArm("tensorflow/cudnn", str(CPU))


def trial(arm: Arm, block: int, repeat: int = 0, **changes: Any) -> TrialRecord:
    """A complete trial of 10 ms a step; `changes` are fields, or metrics by name."""
    known = {name: changes.pop(name) for name in tuple(changes) if name in TrialRecord.__slots__}
    metrics = known.pop("metrics", {"step_ms": 10.0, "val_accuracy": 0.9, **changes})
    name = f"{arm.implementation}-{block}-{repeat}"
    kernel = Kernel("portable", "portable", "While in the traced graph")
    fields: dict[str, Any] = {
        "run_id": f"run-{name}",
        "trial_key": f"key-{name}-{arm.hardware}",
        "config": {"units": 16 * (block + 1), "batch_size": 32},
        "status": "complete",
        "metrics": {k: v for k, v in metrics.items() if v is not None},
        "kernel": kernel,
        "trainer_trials": 1,
        **known,
    }
    return TrialRecord(block=block, arm=arm, repeat=repeat, **fields)


def sweep(
    trials: Sequence[TrialRecord],
    arms: Sequence[Arm] = (PORTABLE, XLA),
    *,
    objectives: Mapping[str, str] | None = None,
    **changes: Any,
) -> SweepRecord:
    """A sweep of these trials, with as many blocks and repeats as they have."""
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


def paired(
    blocks: int, ratio: Callable[[int], float] = lambda block: 1.25, **changes: Any
) -> SweepRecord:
    """PORTABLE at 10 ms a step, XLA at 10 / ratio(block), in every block."""
    trials = [
        trial(arm, block, step_ms=10.0 if arm == PORTABLE else 10.0 / ratio(block))
        for block in range(blocks)
        for arm in (PORTABLE, XLA)
    ]
    return sweep(trials, **changes)

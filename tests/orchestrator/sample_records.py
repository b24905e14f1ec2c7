"""Sample sweep records for the tests of reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from orchestrator.core.arms import Arm, RequestedArm, Variant
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    FailureReason,
    FailureRecord,
    FinishedTrial,
    ImpossibleArm,
    Kernel,
    Outcome,
    Telemetry,
    Trial,
)
from tests.orchestrator.sample_hardware import on_cpu, on_gpu

CPU, GPU = on_cpu(), on_gpu()
PORTABLE = Arm("tensorflow/portable", CPU)
XLA = Arm("tensorflow/portable+xla", CPU)
UNROLL = Arm("tensorflow/portable+unroll", CPU)
CUDNN = RequestedArm("tensorflow/cudnn", str(CPU))
LSTM, GRU = (Variant(cell, {"cell": cell}) for cell in ("lstm", "gru"))
CELLS = tuple(
    Arm(name, CPU, cell) for name in ("tensorflow/portable", "torch/fused") for cell in (LSTM, GRU)
)


_OF_TRIAL = {field.name for field in fields(Trial)}
_OF_OUTCOME = {field.name for field in fields(Outcome)}
_FIELDS = {"run_id", *_OF_TRIAL, *_OF_OUTCOME, *(field.name for field in fields(Telemetry))}


def changed(finished: FinishedTrial, **changes: Any) -> FinishedTrial:
    """Return the trial with other fields, of itself, its outcome or its telemetry."""
    of_trial = {name: changes.pop(name) for name in (*changes,) if name in _OF_TRIAL}
    of_outcome = {name: changes.pop(name) for name in (*changes,) if name in _OF_OUTCOME}
    if isinstance(failure := of_outcome.get("failure"), str):
        reason, _, message = failure.partition(": ")
        of_outcome["failure"] = FailureRecord(cast(FailureReason, reason), message)
    run_id = changes.pop("run_id", finished.run_id)
    telemetry = replace(of_outcome.pop("telemetry", finished.telemetry), **changes)
    return FinishedTrial(
        replace(finished.trial, **of_trial),
        replace(finished.outcome, **of_outcome, telemetry=telemetry),
        run_id,
    )


def trial(arm: Arm, block: int, repeat: int = 0, **changes: Any) -> FinishedTrial:
    """Return a complete trial of 10 ms a step; `changes` are fields, or metrics by name."""
    given = {name: changes.pop(name) for name in (*changes,) if name in _FIELDS}
    metrics = given.pop("metrics", {"step_ms": 10.0, "val_accuracy": 0.9, **changes})
    name = f"{arm.short_name}-{block}-{repeat}"
    config = {"units": 16 * (block + 1), "batch_size": 32}
    kernel = Kernel("portable", "portable", "While in the traced graph")
    outcome = Outcome(
        "complete",
        0.0,
        0.0,
        metrics={k: v for k, v in metrics.items() if v is not None},
        kernel=kernel,
        trainer_trials=1,
    )
    key = f"key-{name}-{arm.hardware}"
    made = FinishedTrial(Trial(key, block, config, arm, repeat, 0), outcome, f"run-{name}")
    return changed(made, **given)


def sweep(
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


def timed(
    times: Mapping[Arm, float], blocks: int | Sequence[int] = 8, repeats: int = 1, **changes: Any
) -> list[FinishedTrial]:
    """Return trials of these step times, which are a little longer in two of three blocks."""
    return [
        trial(arm, block, repeat, **{"step_ms": ms * (1 + 0.001 * (block % 3)), **changes})
        for block in (range(blocks) if isinstance(blocks, int) else blocks)
        for repeat in range(repeats)
        for arm, ms in times.items()
    ]


def paired(
    blocks: int, ratio: Callable[[int], float] = lambda block: 1.25, **changes: Any
) -> SweepRecord:
    """Return a sweep with PORTABLE at 10 ms a step and XLA at 10 / ratio(block)."""
    trials = [
        trial(arm, block, step_ms=10.0 if arm == PORTABLE else 10.0 / ratio(block))
        for block in range(blocks)
        for arm in (PORTABLE, XLA)
    ]
    return sweep(trials, **changes)


def disturb(record: SweepRecord, blocks: Mapping[Arm, Sequence[int]]) -> SweepRecord:
    """Return the sweep with a slow canary in these blocks of each arm."""
    trials = [
        changed(t, disturbance={"slow_canary": 1.5}) if t.block in blocks.get(t.arm, ()) else t
        for t in record.trials
    ]
    return replace(record, trials=tuple(trials))

"""Identities of sweeps, finished trials and outcomes.

build_trial(0, XLA, step_ms=8.0)       # as a report reads it: 10 ms a step, unless given
build_full_trial(0, XLA, attempt=2)    # as the runner hands it over: every field filled
build_failed_trial(0, XLA)             # the same, of a trainer that crashed
build_outcome(0.9, attempt=2)          # what an assignment ends with
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from orchestrator.core.arms import Arm
from orchestrator.core.trial import (
    Block,
    DatasetRecord,
    EpochRecord,
    FailureReason,
    FailureRecord,
    FingerprintRecord,
    FinishedTrial,
    Kernel,
    Outcome,
    SweepIdentity,
    Telemetry,
    Trial,
    make_trial,
)
from tests.building.arms import PORTABLE

_FIELDS_OF_TRIAL = {field.name for field in fields(Trial)}
_FIELDS_OF_OUTCOME = {field.name for field in fields(Outcome)}
_FIELDS_OF_TELEMETRY = {field.name for field in fields(Telemetry)}
_FIELDS = {"run_id"} | _FIELDS_OF_TRIAL | _FIELDS_OF_OUTCOME | _FIELDS_OF_TELEMETRY


def build_identity(**changes: Any) -> SweepIdentity:
    identity = SweepIdentity(
        name="quickstart",
        generation=1,
        workload="image_rows",
        settings={"dataset": "digits", "cell": "lstm", "epochs": 3},
        search={"sampler": "tpe", "space": {"units": {"low": 16, "high": 128}}},
        seed=7,
        data_digest="0f" * 16,
    )
    return replace(identity, **changes)


IDENTITY = build_identity()


def build_outcome(accuracy: float = 0.5, **changes: Any) -> Outcome:
    """Return a complete outcome; `changes` are other fields of it."""
    outcome = Outcome("complete", 0.0, 1.0, metrics={"val_accuracy": accuracy})
    return replace(outcome, **changes)


def build_failed_outcome() -> Outcome:
    return Outcome("failed", 0.0, 1.0, failure=FailureRecord("error", "odd"))


def build_trial(block: int, arm: Arm = PORTABLE, repeat: int = 0, **changes: Any) -> FinishedTrial:
    """Return a complete trial of 10 ms a step; `changes` are fields, or metrics by name."""
    given = {name: changes.pop(name) for name in (*changes,) if name in _FIELDS}
    metrics = given.pop("metrics", {"step_ms": 10.0, "val_accuracy": 0.9, **changes})
    name = f"{arm.short_name}-{block}-{repeat}"
    config = {"units": 16 * (block + 1), "batch_size": 32}
    outcome = Outcome(
        "complete",
        0.0,
        0.0,
        metrics={k: v for k, v in metrics.items() if v is not None},
        kernel=Kernel("portable", "portable", "While in the traced graph"),
        trainer_trials=1,
    )
    trial = Trial(f"key-{name}-{arm.hardware}", block, config, arm, repeat, 0)
    return change_trial(FinishedTrial(trial, outcome, f"run-{name}"), **given)


def build_fingerprint(factor: float) -> FingerprintRecord:
    """Return the fingerprint of a model whose outputs and gradients are `factor` times as large."""
    return FingerprintRecord(
        outputs=(factor * 3.0, factor * -4.0),
        output_rms=factor * 2.0,
        gradient_norms=(factor * 10.0,),
        gradient_projections=(factor * 5.0,),
    )


def build_full_trial(
    block: int = 0, arm: Arm = PORTABLE, repeat: int = 0, epochs: int = 3, **changes: Any
) -> FinishedTrial:
    """Return a complete trial with every field filled; `changes` are fields of its outcome."""
    config = {"units": 32 + block, "layers": 2, "learning_rate": 1e-3, "bidirectional": False}
    start_s = 1.7e9 + 10.25 * block
    outcome = Outcome(
        status="complete",
        started_s=start_s,
        ended_s=start_s + 5.5,
        node="node-1",
        metrics={"loss": 0.25, "val_accuracy": 0.875, "step_ms": 8.123456789, "train_s": 1.5},
        epochs=tuple(
            EpochRecord(index, 0.5, 0.125, {"loss": 1 / (index + 1), "val_accuracy": 0.5})
            for index in range(epochs)
        ),
        kernel=Kernel("portable", "portable", "graph has While, no CudnnRNNV3"),
        fingerprint=FingerprintRecord((0.5, -0.25), 0.375, (1.5, 0.25), (-1.0, 0.125)),
        dataset=DatasetRecord("digits", "ab" * 32, "scikit-learn load_digits", 1437, 360),
        environment={"python": "3.11.7", "tensorflow": "2.21.0", "cpus": 2, "gpu": None},
        trainer_trials=block,
    )
    trial = make_trial(IDENTITY, Block(block, config), arm, repeat)
    return FinishedTrial(trial, replace(outcome, **changes))


def build_failed_trial(block: int = 0, arm: Arm = PORTABLE, **changes: Any) -> FinishedTrial:
    """Return a trial whose trainer crashed; `changes` are fields of its outcome."""
    failure = FailureRecord("crash", "the trainer process ended with SIGSEGV", "last\nlines\n")
    nothing: dict[str, Any] = {
        "metrics": {},
        "epochs": 0,
        "kernel": None,
        "fingerprint": None,
        "dataset": None,
    }
    failed = {"status": "failed", "failure": failure, **nothing}
    return build_full_trial(block, arm, **{**failed, **changes})


def build_timed_trials(
    times: Mapping[Arm, float], blocks: int | Sequence[int] = 8, repeats: int = 1, **changes: Any
) -> list[FinishedTrial]:
    """Return trials of these step times, which are a little longer in two of three blocks."""
    return [
        build_trial(block, arm, repeat, **{"step_ms": ms * (1 + 0.001 * (block % 3)), **changes})
        for block in (range(blocks) if isinstance(blocks, int) else blocks)
        for repeat in range(repeats)
        for arm, ms in times.items()
    ]


def change_trial(finished: FinishedTrial, **changes: Any) -> FinishedTrial:
    """Return the trial with other fields, of itself, its outcome or its telemetry.

    A `failure` may be given as text: `crash: signal 11`.
    """
    of_trial = {name: changes.pop(name) for name in (*changes,) if name in _FIELDS_OF_TRIAL}
    of_outcome = {name: changes.pop(name) for name in (*changes,) if name in _FIELDS_OF_OUTCOME}
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

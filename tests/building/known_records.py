"""Sweeps with known truth: step times that follow a law of the size, and trainings to a target."""

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config, EpochRecord, FinishedTrial
from tests.building.arms import PORTABLE, XLA
from tests.building.records import build_record
from tests.building.trials import build_trial

UNITS = (16, 24, 32, 48, 64, 96, 128, 192)

StepTime = Callable[[Mapping[str, Any]], float]


def build_record_by_laws(
    laws: Mapping[Arm, StepTime],
    configs: Sequence[Config],
    *,
    noise: float = 0.04,
    seed: int = 0,
    **metrics: Callable[[Arm, random.Random], float],
) -> SweepRecord:
    """Return trials of every arm at every config, with further `metrics` from their functions."""
    draw = random.Random(seed)
    trials = [
        build_trial(
            block,
            arm,
            config=config,
            metrics={
                "step_ms": law(config) * draw.lognormvariate(0, noise),
                **{name: draw_metric(arm, draw) for name, draw_metric in metrics.items()},
            },
        )
        for block, config in enumerate(configs)
        for arm, law in laws.items()
    ]
    return build_record(trials, tuple(laws))


def build_crossing_laws(
    size: float, slope: float = 0.3, param: str = "units"
) -> dict[Arm, StepTime]:
    """Return laws by which XLA is (param / size) ^ slope times as fast as PORTABLE."""
    return {
        PORTABLE: lambda config: 0.5 * float(config[param]),
        XLA: lambda config: 0.5 * float(config[param]) * (float(config[param]) / size) ** -slope,
    }


RISING, FLAT = (0.5, 0.7, 0.8, 0.9), (0.5, 0.6, 0.6, 0.6)
NAN = "non_finite: epoch 3: loss is nan"

Ending = Sequence[float] | str
"""The accuracies of a training's epochs, or the failure that it ends with."""


def build_training(
    block: int, arm: Arm, ending: Ending = RISING, epoch_s: float = 2.0, **changes: Any
) -> FinishedTrial:
    epochs = tuple(
        EpochRecord(i, epoch_s, 0.1, {"val_accuracy": value})
        for i, value in enumerate(RISING if isinstance(ending, str) else ending)
    )
    if isinstance(ending, str):
        failed: dict[str, Any] = {"status": "failed", "failure": ending, "metrics": {}}
        return build_trial(block, arm, epochs=epochs, **{**failed, **changes})
    measured = {"train_s": epoch_s * len(epochs), "val_accuracy": ending[-1], "step_ms": 5.0}
    return build_trial(block, arm, epochs=epochs, **{**measured, **changes})


def build_learning_record(
    endings: Mapping[int, tuple[Ending, Ending]] = MappingProxyType({}),
    blocks: int = 8,
    **changes: Any,
) -> SweepRecord:
    """Return trainings of PORTABLE, and of XLA with epochs half as long, to val_accuracy 0.8."""
    # Accuracies rise in every block, except in those that `endings` names.
    trials = [
        build_training(block, arm, ending, epoch_s, **changes)
        for block in range(blocks)
        for arm, ending, epoch_s in zip(
            (PORTABLE, XLA), endings.get(block, (RISING, RISING)), (2.0, 1.0), strict=True
        )
    ]
    return build_target_record(trials)


def build_target_record(
    trials: Sequence[FinishedTrial], arms: Sequence[Arm] = (PORTABLE, XLA)
) -> SweepRecord:
    return build_record(trials, arms, settings={"target_accuracy": 0.8})

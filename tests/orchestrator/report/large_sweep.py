"""A sweep as large as reports must bear, made by hand: real shapes, drawn times."""

from __future__ import annotations

import random

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import EpochRecord, FinishedTrial
from tests.orchestrator.sample_records import CPU, GPU, sweep, trial

_KERNELS = (
    *("tensorflow/portable", "tensorflow/portable+xla", "tensorflow/portable+unroll"),
    *("tensorflow/cudnn", "jax/portable", "jax/cudnn", "torch/portable", "torch/fused"),
    *("torch/cudnn", "tensorflow/fused"),
)


def large(blocks: int = 500, kernels: int = 10, epochs: int = 5, seed: int = 0) -> SweepRecord:
    """Every kernel on two hardware classes, in every block: 10,000 trials as a rule."""
    draw = random.Random(seed)
    arms = [Arm(kernel, where) for where in (CPU, GPU) for kernel in _KERNELS[:kernels]]
    trials = []
    for block in range(blocks):
        config = {
            "units": draw.choice((16, 24, 32, 48, 64, 96, 128)),
            "layers": draw.choice((1, 2, 3)),
            "batch_size": draw.choice((32, 64)),
        }
        trials += [
            _trial(arm, place, block, config, epochs, draw) for place, arm in enumerate(arms)
        ]
    return sweep(trials, arms, impossible=())


def _trial(
    arm: Arm, place: int, block: int, config: dict[str, int], epochs: int, draw: random.Random
) -> FinishedTrial:
    step_ms = 0.2 * config["units"] ** (1 - place / 40) * config["layers"]
    step_ms *= draw.lognormvariate(0, 0.05)
    step_s = step_ms / 1000
    accuracy = 0.9 + 0.01 * draw.random()
    learned = tuple(
        EpochRecord(
            index,
            50 * step_s,
            5 * step_s,
            {"loss": 2 / (index + 1), "val_accuracy": accuracy - 0.1 / (index + 1)},
        )
        for index in range(epochs)
    )
    metrics = {
        "step_ms": step_ms,
        "sample_us": 1000 * step_ms / config["batch_size"],
        "samples_per_s": config["batch_size"] / step_s,
        "train_s": 50 * step_s * epochs,
        "validate_s": 5 * step_s * epochs,
        "evaluate_s": 5 * step_s,
        "predict_s": 4 * step_s,
        "load_s": draw.uniform(0.1, 0.3),
        "compile_s": draw.uniform(1, 2) + place / 10,
        "queue_s": 0.1,
        "setup_s": 0.01,
        "peak_rss_mib": draw.uniform(600, 900),
        "energy_j": 50 * step_s * epochs * 60,
        "energy_per_sample_j": 60 * step_s / config["batch_size"],
        "train_cost_usd": 50 * step_s * epochs / 3600,
        "others_cpu_pct": draw.uniform(0, 2),
        "loss": 0.4,
        "val_accuracy": accuracy,
        "val_loss": 0.3,
        "accuracy": accuracy + 0.01,
    }
    return trial(
        arm,
        block,
        config=config,
        metrics=metrics,
        epochs=learned,
        run_id=f"{block:06d}{place:026d}",
        trainer_trials=min(block, 30),
        energy_scope="gpu" if arm.hardware == GPU else "cpu_package",
        started_s=1e9 + block * 100,
        ended_s=1e9 + block * 100 + 10,
    )

"""Sweeps as large, as rich or as hostile as reports must bear: real shapes, drawn times."""

import random
from collections.abc import Mapping
from dataclasses import replace

from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    EpochRecord,
    FailureRecord,
    FinishedTrial,
    ImpossibleArm,
    Kernel,
)
from tests.building.arms import CPU, GPU
from tests.building.hardware import build_cpu_use
from tests.building.records import build_record
from tests.building.trials import build_trial, change_trial

_KERNELS = (
    "tensorflow/portable",
    "tensorflow/portable+xla",
    "tensorflow/portable+unroll",
    "tensorflow/cudnn",
    "jax/portable",
    "jax/cudnn",
    "torch/portable",
    "torch/fused",
    "torch/cudnn",
    "tensorflow/fused",
)

HOSTILE_TEXTS = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '<a href="javascript:alert(3)">look</a>&lt;b&gt;',
    "<!--<script>\u2028${alert(4)}{{7*7}}$\\frac{a}{b}$",
    "__proto__",
    "<b>x</b><svg/onload=alert(5)>" + "long" * 60,
    "<script>alert(6)</script> | `x` \x1b[31m [a](http://b) =cmd",
)


def build_large_record(blocks: int, kernels: int, epochs: int = 5, repeats: int = 1) -> SweepRecord:
    """Return so many kernels on two hardware classes, in every block."""
    draw = random.Random(0)
    arms = [Arm(kernel, where) for where in (CPU, GPU) for kernel in _KERNELS[:kernels]]
    trials = []
    for block in range(blocks):
        config = {
            "units": draw.choice((16, 24, 32, 48, 64, 96, 128)),
            "layers": draw.choice((1, 2, 3)),
            "batch_size": draw.choice((32, 64)),
        }
        trials += [
            _trial(arm, place, block, repeat, config, epochs, draw)
            for repeat in range(repeats)
            for place, arm in enumerate(arms)
        ]
    return build_record(trials, arms, impossible=())


def build_rich_record() -> SweepRecord:
    """Return a sweep of eight arms in which two trials failed and one ran another kernel."""
    record = build_large_record(blocks=14, kernels=4, epochs=8, repeats=2)
    trials = list(record.trials)
    failure = "out_of_memory: the kernel ended the trainer at 15,109 MiB"
    for at in (40, 41):
        trials[at] = change_trial(trials[at], status="failed", failure=failure, metrics={})
    trials[60] = change_trial(trials[60], status="wrong_kernel")
    return replace(record, trials=tuple(trials))


def build_small_record() -> SweepRecord:
    """Return a sweep of four arms on two hardware classes, with enough blocks for verdicts."""
    return build_large_record(blocks=7, kernels=2, epochs=3)


def build_hostile_record() -> SweepRecord:
    """Return a sweep in which every text tries to be markup, a formula or a terminal code."""
    image, script, link, *_, code = HOSTILE_TEXTS
    arms = [Arm(text, build_cpu_use(image)) for text in HOSTILE_TEXTS]
    trials = [
        build_trial(
            block,
            arm,
            config={image: script, code: block + 1, "units": 16 * (block + 1)},
            run_id=f"{HOSTILE_TEXTS[block % len(HOSTILE_TEXTS)]}{block}{place}",
            node=script,
            metrics={code: 1.0, "step_ms": 10.0 + place, "val_accuracy": 0.5, "train_s": 1.0},
            energy_scope=image,
            cost_basis=script,
            disturbance={code: 1.0} if block == 1 else {},
            kernel=Kernel(image, script, link),
            epochs=(EpochRecord(0, 1.0, 1.0, {code: 1.0, "val_accuracy": 0.5}),),
            failure=FailureRecord("error", script),
            status="failed" if (place, block) == (1, 0) else "complete",
        )
        for block in range(8)
        for place, arm in enumerate(arms)
    ]
    row = PublishedRow(code, arms[0].implementation, image, {code: script}, {code: 1.0})
    return build_record(
        trials,
        arms,
        name=script,
        run_id=image,
        workload=link,
        environment={image: code},
        settings={image: script},
        impossible=(ImpossibleArm(RequestedArm(image, code), script),),
        criteria=ReportCriteria(published=(row,)),
    )


def _trial(
    arm: Arm,
    place: int,
    block: int,
    repeat: int,
    config: Mapping[str, int],
    epochs: int,
    draw: random.Random,
) -> FinishedTrial:
    units, layers, batch_size = (config[name] for name in ("units", "layers", "batch_size"))
    step_ms = 0.2 * units ** (1 - place / 40) * layers
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
        "sample_us": 1000 * step_ms / batch_size,
        "samples_per_s": batch_size / step_s,
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
        "energy_per_sample_j": 60 * step_s / batch_size,
        "train_cost_usd": 50 * step_s * epochs / 3600,
        "others_cpu_pct": draw.uniform(0, 2),
        "loss": 0.4,
        "val_accuracy": accuracy,
        "val_loss": 0.3,
        "accuracy": accuracy + 0.01,
    }
    return build_trial(
        block,
        arm,
        repeat,
        config=config,
        metrics=metrics,
        epochs=learned,
        run_id=f"{block:06d}{repeat:02d}{place:024d}",
        trainer_trials=min(block, 30),
        energy_scope="gpu" if arm.hardware == GPU else "cpu_package",
        started_s=1e9 + block * 100,
        ended_s=1e9 + block * 100 + 10,
    )

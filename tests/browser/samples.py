"""Artificial sweeps for tests of the page: rich, small, large or hostile."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import (
    EpochRecord,
    FailureRecord,
    FinishedTrial,
    Kernel,
    Outcome,
    Telemetry,
    Trial,
)
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_records import changed, sweep

HARDWARE = (on_cpu("AMD EPYC 9654", 8), on_gpu("NVIDIA H200"), on_gpu("Tesla T4"))
IMPLEMENTATIONS = (
    "tensorflow/portable",
    "tensorflow/portable+xla",
    "tensorflow/cudnn",
    "torch/fused",
)
_SPEED = {IMPLEMENTATIONS[0]: 1.0, IMPLEMENTATIONS[1]: 0.8, IMPLEMENTATIONS[2]: 0.3}
_POWER_W = {HARDWARE[0]: 180.0, HARDWARE[1]: 400.0, HARDWARE[2]: 70.0}

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '<a href="javascript:alert(3)">look</a>&lt;b&gt;',
    "<!--<script>\u2028${alert(4)}{{7*7}}$\\frac{a}{b}$",
    "__proto__",
    "<b>x</b><svg/onload=alert(5)>" + "long" * 60,
)


def arms(
    implementations: Sequence[str] = IMPLEMENTATIONS, hardware: Sequence[HardwareUse] = HARDWARE
) -> list[Arm]:
    """Return all implementations on all hardware, except cuDNN on a CPU."""
    pairs = (Arm(i, h) for h in hardware for i in implementations)
    return [arm for arm in pairs if "cudnn" not in arm.implementation or arm.device == "gpu"]


def rich(
    blocks: int = 14, repeats: int = 2, of: Sequence[Arm] | None = None, epochs: int = 8
) -> SweepRecord:
    """Return a sweep with everything that a page can show, with seeded noise."""
    noise = random.Random(7)
    all_arms = list(of) if of is not None else arms()
    trials = []
    for block in range(blocks):
        config = {
            "units": int(16 * 2 ** noise.uniform(0, 4)),
            "layers": noise.choice((1, 2)),
            "batch_size": noise.choice((32, 64, 128)),
        }
        for repeat in range(repeats):
            for place, arm in enumerate(all_arms):
                trials.append(_trial(noise, arm, place, block, repeat, config, epochs))
    _spoil(trials)
    objectives = {"val_accuracy": "maximize", "step_ms": "minimize"}
    return sweep(trials, all_arms, objectives=objectives)


def small() -> SweepRecord:
    """Return a sweep of five arms on two kinds of hardware, with enough blocks for verdicts."""
    return rich(blocks=7, repeats=1, of=arms(IMPLEMENTATIONS[:3], HARDWARE[:2]), epochs=3)


def summary(record: SweepRecord) -> ReportSummary:
    """Summarise a record, with telemetry of one trial per arm."""
    first: dict[Arm, FinishedTrial] = {}
    for trial in record.trials:
        if trial.status == "complete":
            first.setdefault(trial.arm, trial)
    return summarise(record, curves={t.run_id: _telemetry(i) for i, t in enumerate(first.values())})


def _trial(
    noise: random.Random,
    arm: Arm,
    place: int,
    block: int,
    repeat: int,
    config: Mapping[str, int],
    epochs: int,
) -> FinishedTrial:
    units, batch = config["units"], config["batch_size"]
    gpu = arm.device == "gpu"
    step_ms = (2 + (units / 64) ** (0.6 if gpu else 1.7)) * _SPEED.get(arm.implementation, 0.9)
    step_ms *= (1 + 0.1 * place) * noise.lognormvariate(0, 0.04)
    best = 0.98 - 1.2 / units + noise.gauss(0, 0.003)
    epoch_s = step_ms * 4000 / batch / 1000
    train_s = epoch_s * epochs
    power = _POWER_W.get(arm.hardware, 100.0)
    learned = [best * (1 - math.exp(-0.6 * (i + 1))) for i in range(epochs)]
    run_id, key = f"{noise.getrandbits(128):032x}", f"{noise.getrandbits(64):016x}"
    outcome = Outcome(
        "complete",
        0.0,
        0.0,
        metrics={
            "step_ms": step_ms, "train_s": train_s, "samples_per_s": 1000 * batch / step_ms,
            "val_accuracy": learned[-1] if learned else best, "val_loss": 1 - best,
            "queue_s": 0.4, "setup_s": 0.9, "import_s": 3.1, "load_s": 0.8,
            "compile_s": 6.5 if "xla" in arm.implementation else 1.2, "validate_s": train_s / 8,
            "evaluate_s": train_s / 10, "predict_s": train_s / 11, "energy_j": train_s * power,
            "cost_usd": train_s * power / 3e5, "peak_rss_mib": 900.0 + units,
        },
        kernel=Kernel("portable", "portable", "While in the traced graph"),
        trainer_trials=block,
        node=f"node-{HARDWARE.index(arm.hardware) if arm.hardware in HARDWARE else 0}",
        telemetry=Telemetry(energy_scope="gpu" if gpu else "cpu_package"),
        epochs=tuple(
            EpochRecord(i, epoch_s, epoch_s / 8, {"val_accuracy": v, "val_loss": 1 - v})
            for i, v in enumerate(learned)
        ),
    )  # fmt: skip
    return FinishedTrial(Trial(key, block, config, arm, repeat, 0), outcome, run_id)


def _spoil(trials: list[FinishedTrial]) -> None:
    """Let two trials fail and one run another kernel, if there are enough."""
    failure = "out_of_memory: the kernel ended the trainer at 15,109 MiB"
    for at in (40, 41):
        if at < len(trials):
            trials[at] = changed(trials[at], status="failed", failure=failure, metrics={})
    if len(trials) > 60:
        trials[60] = changed(trials[60], status="wrong_kernel")


def _telemetry(place: int) -> Telemetry:
    at = tuple(0.5 * i for i in range(120))
    return Telemetry(
        at_s=at,
        curves={
            "system/cpu_utilization_percentage": tuple(
                min(100.0, 20 + 5 * place + 30 * abs(math.sin(t / 9 + place))) for t in at
            ),
            "system/gpu_0_utilization_percentage": tuple(
                None if t < 5 else 60 + 30 * math.cos(t / 7 + place) for t in at
            ),
        },
    )


def hostile() -> SweepRecord:
    """Return a sweep in which every text tries to be markup."""
    all_arms = [Arm(name, on_cpu(HOSTILE[0])) for name in HOSTILE]
    record = rich(blocks=7, repeats=1, of=all_arms)
    trials = [
        changed(
            trial,
            run_id=HOSTILE[i % len(HOSTILE)],
            node=HOSTILE[1],
            config={HOSTILE[0]: HOSTILE[1], **trial.config},
            energy_scope=HOSTILE[0],
            cost_basis=HOSTILE[1],
            kernel=Kernel(HOSTILE[0], HOSTILE[1], HOSTILE[2]),
            failure=FailureRecord("error", HOSTILE[1]),
            status="failed" if i == 3 else trial.status,
        )
        for i, trial in enumerate(record.trials)
    ]
    return replace(
        record,
        name=HOSTILE[1],
        run_id=HOSTILE[0],
        workload=HOSTILE[2],
        trials=tuple(trials),
        environment={HOSTILE[0]: HOSTILE[1]},
        settings={HOSTILE[0]: HOSTILE[1]},
    )

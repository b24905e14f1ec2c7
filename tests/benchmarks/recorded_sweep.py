"""A sweep of many trials in a store, recorded as a driver records it: from a replayed journal.

The trials are made up, by a law and a seeded noise; what they are made of (34 metrics, 5 epochs,
telemetry with its curves) is what a trial of `sweeps/quickstart.yaml` has.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.trial import (
    Block,
    Config,
    DatasetRecord,
    EpochRecord,
    FinishedTrial,
    Kernel,
    Outcome,
    SweepIdentity,
    Telemetry,
    make_trial,
)
from orchestrator.storage.journal import Journal, rebuild, replay
from orchestrator.storage.lock import Owner
from orchestrator.storage.resume import unrecorded_trials
from orchestrator.storage.tracking.address import tracking_uri
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.records import Manifest, SweepOpening
from tests.orchestrator.sample_hardware import on_cpu, on_gpu

NAME = "report-benchmark"
REPEATS = 2
_EPOCHS = 5
_SAMPLES = 6
_BEGAN_S = 1.79e9
_PATIENCE_S = 3600.0

_FACTORS: Mapping[str, float] = {
    "tensorflow/portable": 1.0,
    "tensorflow/portable+xla": 0.72,
    "tensorflow/portable+unroll": 1.31,
    "jax/portable": 0.64,
    "torch/fused": 0.81,
}
_HARDWARE: Mapping[HardwareUse, float] = {
    on_cpu("AMD EPYC 9354"): 1.0,
    on_gpu("NVIDIA H200", "AMD EPYC 9354"): 0.21,
}

ARMS = tuple(Arm(name, hardware) for hardware in _HARDWARE for name in _FACTORS)

_IDENTITY = SweepIdentity(
    name=NAME,
    generation=1,
    workload="image_rows",
    settings={"dataset": "digits", "cell": "lstm", "epochs": _EPOCHS},
    search={
        "sampler": "random",
        "space": {
            "units": {"low": 16, "high": 256, "log": True},
            "layers": {"low": 1, "high": 2},
            "batch_size": [32, 64],
        },
    },
    seed=11,
    data_digest="0f" * 16,
)
_DATA = DatasetRecord("digits", "ab" * 32, "scikit-learn digits.csv.gz", 1438, 359)
_OTHER_METRICS = (
    *("import_s", "load_s", "compile_s", "validate_s", "evaluate_s", "predict_s", "setup_s"),
    *("trainer_cpu_pct", "others_cpu_pct", "steal_pct", "telemetry_cpu_pct", "cpu_over_wall"),
    *("step_ms_median", "step_ms_p95", "sample_us", "samples_per_s", "predict_sample_ms"),
    *("latency_s", "steps_s", "peak_rss_mib", "peak_flops_per_s", "model_flops_utilization_pct"),
    *("queue_s", "mean_power_w", "cost_usd"),
)
_CURVES = (
    "cpu_utilization_percentage",
    "cpu_trainer_percentage",
    "cpu_others_percentage",
    "system_memory_usage_megabytes",
    "trainer_memory_usage_megabytes",
)


def record(home: Path, configs: int) -> int:
    """Have the sweep in the store of `home`, all of it; how many trials it has.

    A store that has a part of it gets the rest.
    """
    blocks = [_block(index) for index in range(configs)]
    with Journal.open(_folder(home)) as journal:
        if not journal.records:
            for entry in rebuild(_IDENTITY, {}, list(_finished(blocks))):
                journal.append(entry)
    with Journal.open(_folder(home)) as journal:
        state = replay(journal.records)
    assert state is not None
    with Recorder(tracking_uri(home, {}), home, home / "recorder.log") as recorder:
        stored = recorder.open(_opening(len(blocks)))
        for trial in unrecorded_trials(state, stored):
            recorder.put(trial)
        recorder.drain(_PATIENCE_S)
        recorder.close("complete", {}, timeout_s=_PATIENCE_S)
    return len(state.finished)


def _folder(home: Path) -> Path:
    return home / "sweeps" / NAME / "1"


def _opening(blocks: int) -> SweepOpening:
    manifest = Manifest(
        identity=_IDENTITY,
        objectives={"val_accuracy": "maximize", "step_ms": "minimize"},
        arms=ARMS,
        impossible=(),
        blocks=blocks,
        repeats=REPEATS,
    )
    plan = {"arms": [str(arm) for arm in ARMS]}
    return SweepOpening(manifest, f"name: {NAME}\nworkload: image_rows\n", plan, Owner.here())


def _block(index: int) -> Block:
    chance = random.Random(index)
    units = round(16 * 16 ** chance.random())
    config = {"units": units, "layers": chance.randint(1, 2), "batch_size": chance.choice((32, 64))}
    return Block(index, config)


def _finished(blocks: list[Block]) -> Iterator[FinishedTrial]:
    clock_s = _BEGAN_S
    for block in blocks:
        for repeat in range(REPEATS):
            for arm in ARMS:
                trial = make_trial(_IDENTITY, block, arm, repeat)
                outcome = _outcome(block.config, arm, clock_s, random.Random(trial.key))
                clock_s = outcome.ended_s
                yield FinishedTrial(trial, outcome)


def _outcome(config: Config, arm: Arm, began_s: float, chance: random.Random) -> Outcome:
    factor = _FACTORS[arm.implementation] * _HARDWARE[arm.hardware]
    work = float(config["units"]) ** 1.2 * int(config["layers"]) * int(config["batch_size"]) / 4e3
    step_ms = (0.3 + work) * factor * math.exp(chance.gauss(0, 0.05))
    steps = math.ceil(_DATA.samples / int(config["batch_size"]))
    epoch_s = step_ms * steps / 1e3
    accuracy = min(0.99, 0.7 + 0.05 * math.log(float(config["units"])) + chance.gauss(0, 0.01))
    epochs = tuple(_epoch(index, epoch_s, accuracy) for index in range(_EPOCHS))
    took_s = _EPOCHS * epoch_s
    values = {
        **epochs[-1].metrics,
        "train_s": took_s,
        "step_ms": step_ms,
        "model_flops_per_step": 1e8 * work,
        "model_flops_per_s": 1e11 * work / step_ms,
        "energy_j": 40 * took_s,
        **{name: chance.uniform(0.1, 5) for name in _OTHER_METRICS},
    }
    kernel = arm.implementation.partition("/")[2]
    return Outcome(
        status="complete",
        started_s=began_s,
        ended_s=began_s + took_s,
        node="node-1" if arm.device == "cpu" else "node-2",
        metrics=values,
        epochs=epochs,
        kernel=Kernel(kernel, kernel, "the traced step: MatMul × 92, of float32"),
        dataset=_DATA,
        environment={"python": "3.11.7", "backend": arm.implementation.partition("/")[0]},
        trainer_trials=chance.randrange(40),
        telemetry=_telemetry(took_s, chance),
        cost_basis="the node",
    )


def _epoch(index: int, seconds: float, accuracy: float) -> EpochRecord:
    learned = 1 - 0.6 ** (index + 1)
    metrics = {
        "accuracy": accuracy * learned,
        "loss": 2 * (1 - learned) + 0.1,
        "val_accuracy": accuracy * learned * 0.99,
        "val_loss": 2 * (1 - learned) + 0.12,
    }
    return EpochRecord(index, seconds, seconds / 3, metrics)


def _telemetry(took_s: float, chance: random.Random) -> Telemetry:
    at_s = tuple(took_s * step / _SAMPLES for step in range(_SAMPLES))
    curves = {
        f"system/{name}": tuple(round(chance.uniform(0, 100), 3) for _ in at_s) for name in _CURVES
    }
    return Telemetry(
        energy_method="rapl",
        energy_scope="cpu_package",
        other_trainers=0,
        at_s=at_s,
        curves=curves,
    )

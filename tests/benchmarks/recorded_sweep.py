"""A sweep of many trials in a store, recorded as a driver records it: from a replayed journal.

The trials are made up, by a law and a seeded noise; what they are made of (34 metrics, 5 epochs,
telemetry with its curves) is what a trial of `sweeps/quickstart.yaml` has.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from orchestrator.core.arms import Arm
from orchestrator.core.trial import (
    Block,
    EpochRecord,
    FinishedTrial,
    Outcome,
    Telemetry,
    make_trial,
)
from orchestrator.storage.journal import Journal, SweepOpened
from orchestrator.storage.resume import rebuild, unrecorded_trials
from orchestrator.storage.tracking.address import tracking_uri
from orchestrator.storage.tracking.recorder import Recorder
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_sweeps import IDENTITY, finished, opening

NAME = "report-benchmark"
REPEATS = 2
_EPOCHS = 5
_SAMPLES = 6
_PATIENCE_S = 3600.0
_FACTORS = {
    "tensorflow/portable": 1.0,
    "tensorflow/portable+xla": 0.72,
    "tensorflow/portable+unroll": 1.31,
    "jax/portable": 0.64,
    "torch/fused": 0.81,
}
_HARDWARE = {on_cpu("AMD EPYC 9354"): 1.0, on_gpu("NVIDIA H200", "AMD EPYC 9354"): 0.21}
ARMS = tuple(Arm(name, hardware) for hardware in _HARDWARE for name in _FACTORS)
_IDENTITY = replace(IDENTITY, name=NAME)
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
    """Have the sweep in the store of `home`, all of it; return the number of its trials.

    A store that has a part of it gets the rest.
    """
    with Journal(home / "sweeps" / NAME / "1") as journal:
        if journal.state is None:
            journal.append(SweepOpened(_IDENTITY, {}))
            for entry in rebuild(_finished(configs)):
                journal.append(entry)
        state = journal.state
    assert state is not None
    sweep = opening(_IDENTITY, arms=ARMS, impossible=(), blocks=configs, repeats=REPEATS)
    with Recorder(tracking_uri(home, {}), home, home / "recorder.log") as recorder:
        for trial in unrecorded_trials(state, recorder.open(sweep)):
            recorder.put(trial)
        recorder.drain(_PATIENCE_S)
        recorder.close("complete", {}, timeout_s=_PATIENCE_S)
    return len(state.finished)


def _finished(configs: int) -> Iterator[FinishedTrial]:
    clock_s = 1.79e9
    for index in range(configs):
        chance = random.Random(index)
        units, layers = round(16 * 16 ** chance.random()), chance.randint(1, 2)
        block = Block(index, {"units": units, "layers": layers, "batch_size": 32})
        for repeat in range(REPEATS):
            for arm in ARMS:
                trial = make_trial(_IDENTITY, block, arm, repeat)
                outcome = _outcome(units, layers, arm, clock_s, random.Random(trial.key))
                clock_s = outcome.ended_s
                yield FinishedTrial(trial, outcome)


def _outcome(units: int, layers: int, arm: Arm, began_s: float, chance: random.Random) -> Outcome:
    factor = _FACTORS[arm.implementation] * _HARDWARE[arm.hardware]
    work = units**1.2 * layers / 125
    step_ms = (0.3 + work) * factor * math.exp(chance.gauss(0, 0.05))
    took_s = _EPOCHS * 45 * step_ms / 1e3
    accuracy = min(0.99, 0.7 + 0.05 * math.log(units) + chance.gauss(0, 0.01))
    epochs = tuple(
        EpochRecord(
            index, took_s / _EPOCHS, took_s / 15, dict.fromkeys(names, accuracy / (index + 1))
        )
        for names in [("accuracy", "loss", "val_accuracy", "val_loss")]
        for index in range(_EPOCHS)
    )
    metrics = {
        **epochs[0].metrics,
        "train_s": took_s,
        "step_ms": step_ms,
        "model_flops_per_step": 1e8 * work,
        "model_flops_per_s": 1e11 * work / step_ms,
        "energy_j": 40 * took_s,
        **{name: chance.uniform(0.1, 5) for name in _OTHER_METRICS},
    }
    at_s = tuple(took_s * step / _SAMPLES for step in range(_SAMPLES))
    curves = {
        f"system/{name}": tuple(round(chance.uniform(0, 100), 3) for _ in at_s) for name in _CURVES
    }
    return replace(
        finished().outcome,
        started_s=began_s,
        ended_s=began_s + took_s,
        node="node-1" if arm.device == "cpu" else "node-2",
        metrics=metrics,
        epochs=epochs,
        trainer_trials=chance.randrange(40),
        telemetry=Telemetry(
            energy_method="rapl",
            energy_scope="cpu_package",
            other_trainers=0,
            at_s=at_s,
            curves=curves,
        ),
        cost_basis="the node",
    )

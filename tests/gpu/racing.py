"""Workloads on the passes of `synthetic`: interleaved arms, and layers that fall back."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

from workloads.context import Context
from workloads.implementations import Implementation, parse_implementation
from workloads.measuring.measurement import prepare_framework
from workloads.settings import SyntheticSettings
from workloads.tasks import synthetic


def fallen_back(trial: Context) -> dict[str, float]:
    """Request one kernel and give the layer a cause to silently run another."""
    cause, asked = trial.settings["reason"], trial.implementation
    has_dropout = cause == "recurrent dropout"
    size = SyntheticSettings(
        cell=trial.settings["cell"],
        units=16,
        features=8,
        sequence_length=6,
        batch_size=4,
        recurrent_dropout=0.1 if has_dropout else 0.0,
    )
    built = parse_implementation(f"{asked.backend}/portable") if has_dropout else asked
    with prepare_framework(trial), _cause(cause):
        from workloads.models.built_in import passes_model

        model = passes_model(size, dataclasses.replace(trial, implementation=built))
        if has_dropout:
            model.layers[0].use_cudnn = "auto"
        _, _, proof = _warm(trial, asked, model, size)
        trial.kernel(asked.kernel_text, proof.ran, proof.evidence)
    return {}


def race(trial: Context) -> dict[str, float]:
    """Time the implementations of one backend in turns: build all first, then time round by round.

    So an arm is compiled once, and all arms of a round see the same state of the machine. The
    passes are those of `synthetic`. The artifact holds the milliseconds of each round by arm. If an
    arm fails, it holds the error, and the other arms continue.
    """
    settings = dict(trial.settings)
    arms, rounds, window_s = (settings.pop(name) for name in ("arms", "rounds", "window_s"))
    size = SyntheticSettings(**settings)
    times: dict[str, dict[str, Any]] = {arm: {"step_ms": [], "forward_ms": []} for arm in arms}
    with prepare_framework(trial) as framework:
        runners: dict[str, Any] = {}
        for arm in arms:
            try:
                runners[arm] = _runner(trial, arm, size, times[arm], framework)
            except Exception as error:  # noqa: BLE001 - the other arms continue
                times[arm]["failed"] = f"{type(error).__name__}: {error}"
        for number in range(rounds):
            for arm in list(runners)[:: -1 if number % 2 else 1]:
                runners[arm](window_s)
    trial.artifact("race.json", json.dumps(times))
    return {"arms": float(len(runners))}


def _runner(
    trial: Context, arm: str, size: SyntheticSettings, times: dict[str, Any], framework: Any
) -> Callable[[float], None]:
    """Build, warm up and prove one arm; return a function that times one round of it."""
    implementation = parse_implementation(arm)
    own = dataclasses.replace(trial, implementation=implementation)
    framework.configure(implementation, trial.device)
    began_s = time.monotonic()
    from workloads.models.built_in import passes_model

    model = passes_model(size, own)
    passes, batch, proof = _warm(trial, implementation, model, size)
    framework.synchronise()
    warm_up_s = time.monotonic() - began_s
    times |= {"ran": proof.ran, "evidence": proof.evidence, "warm_up_s": warm_up_s}
    steps = ((passes.forward, "forward_ms"), (passes.forward_backward, "step_ms"))
    guesses_s = [_seconds(framework, step, batch, 1) for step, _ in steps]

    def run(window_s: float) -> None:
        framework.configure(implementation, trial.device)  # arms share the process's settings
        for (step, kind), guess_s in zip(steps, guesses_s, strict=True):
            count = int(np.clip(window_s / guess_s, 1, 200))
            times[kind].append(1_000 * _seconds(framework, step, batch, count) / count)

    return run


def _seconds(framework: Any, step: Any, batch: Any, steps: int) -> float:
    outputs = None
    began_s = time.monotonic()
    for _ in range(steps):
        outputs = step(batch)
    framework.synchronise(outputs)
    return time.monotonic() - began_s


def _warm(
    trial: Context, implementation: Implementation, model: Any, size: SyntheticSettings
) -> Any:
    """Run the passes; return them, their batch, and the evidence of their kernel."""
    from workloads.evidence.kernel_evidence import Stack, prove_passes
    from workloads.models import passes

    both = passes.make_passes(model, implementation)
    batch = both.place(synthetic.random_inputs(size, trial.seed))
    for _ in range(2):
        both.forward(batch)
        both.forward_backward(batch)
    stack = Stack(size.layers, 2 if size.bidirectional else 1, size.sequence_length)
    return both, batch, prove_passes(both, batch, stack, implementation)


def _cause(cause: str) -> AbstractContextManager[Any]:
    """Let PyTorch's cuDNN call fail, or switch cuDNN off; layers handle the other causes."""
    if cause == "an error in cuDNN":
        return mock.patch("keras.src.backend.torch.rnn._cudnn_lstm", side_effect=RuntimeError)
    if cause == "cuDNN switched off":
        import torch

        return torch.backends.cudnn.flags(enabled=False)
    return nullcontext()

"""Workloads for the checks of a GPU that only they need."""

# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

from workloads.context import Context
from workloads.implementations import parse_implementation
from workloads.measuring.device_state import products, warm_clocks
from workloads.measuring.measurement import build_with_weights, prepare_framework
from workloads.tasks.synthetic import task as synthetic
from workloads.tasks.synthetic.settings import SyntheticSettings


def hand_written(trial: Context) -> dict[str, float]:
    """Time the passes of `synthetic` as a user of PyTorch writes them."""
    size = SyntheticSettings(**trial.settings)
    with prepare_framework(trial) as framework:
        import torch

        device = "cuda" if trial.device == "gpu" else "cpu"
        options: Any = {"batch_first": True, "bidirectional": size.bidirectional, "device": device}
        layer = torch.nn.LSTM(size.features, size.units, size.layers, **options)
        batch = torch.as_tensor(
            synthetic.random_inputs(size, trial.seed), device=device
        ).requires_grad_()

        def run(steps: int) -> float:
            framework.synchronise()
            began_s = time.monotonic()
            for _ in range(steps):
                torch.autograd.grad(layer(batch)[0].mean(), [*layer.parameters(), batch])
            framework.synchronise()
            return time.monotonic() - began_s

        run(3)
        warm_clocks(trial.device, framework.synchronise)
        return {"step_ms": 1_000 * run(size.timed_steps) / size.timed_steps}


def fallen_back(trial: Context) -> dict[str, float]:
    """Request cuDNN, and give the layer a cause to run another kernel silently."""
    cause, asked = trial.settings["cause"], trial.implementation
    rate = 0.1 if cause == "recurrent dropout" else 0.0
    sizes = {"cell": trial.settings["cell"], "units": 16, "sequence_length": 6}
    size = SyntheticSettings(**sizes, recurrent_dropout=rate)
    built = parse_implementation(f"{asked.backend}/portable") if rate else asked
    error = mock.patch("keras.src.backend.torch.rnn._cudnn_lstm", side_effect=RuntimeError)
    no_cudnn = error if cause == "an error in cuDNN" else nullcontext()
    with prepare_framework(trial) as framework, no_cudnn:
        from workloads.models.recurrent_parts import mark_recurrent_layers, recurrent_parts
        from workloads.models.rewriting import rewrite

        data = synthetic.load(size, trial.seed)
        author_model = build_with_weights(synthetic.TASK, size, trial, data)
        model = rewrite(author_model, built, framework).model
        if rate:
            model.layers[0].use_cudnn = "auto"
        mark_recurrent_layers(model, framework)
        passes = framework.make_passes(model, asked)
        batch = passes.place(synthetic.random_inputs(size, trial.seed))
        passes.forward_backward(batch)
        proof = framework.prove_passes(passes, batch, recurrent_parts(model), asked, "train")
        trial.kernel(asked.kernel_text, proof.ran, proof.evidence)
    return {}


def after_idleness(trial: Context) -> dict[str, float]:
    """Time about 1 ms of matrix products after idle times, cold and warmed."""
    side, figures = 4_096 if trial.device == "gpu" else 64, dict[str, float]()
    with prepare_framework(trial) as framework:
        multiply = products(side, framework.synchronise)
        count = max(1, round(1 / _product_ms(multiply)))
        for idle_s in trial.settings["idle_s"]:
            for state in ("cold", "warmed"):
                time.sleep(idle_s)
                if state == "warmed":
                    warm_clocks(trial.device, framework.synchronise)
                figures[f"{idle_s:g} s, {state}, ms"] = _milliseconds(multiply, count)
    return figures


def _product_ms(multiply: Callable[[int], None]) -> float:
    """Return the time of one product, measured over at least 20 ms of them."""
    count = 1
    while (taken_ms := _milliseconds(multiply, count)) < 20:
        count *= 2
    return taken_ms / count


def _milliseconds(multiply: Callable[[int], None], count: int) -> float:
    began_s = time.monotonic()
    multiply(count)
    return 1_000 * (time.monotonic() - began_s)

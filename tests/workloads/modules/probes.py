"""A training of an example module as its author would write it, inside a trainer process."""

from unittest import mock

import numpy as np
import torch
from torch._dynamo.utils import counters
from torch.profiler import ProfilerActivity, profile

from tests.workloads.examples import carrying_modules, own_modules
from workloads.context import Context
from workloads.measuring.measurement import measure, prepare_framework
from workloads.modules import compiling
from workloads.modules.module_evidence import prove_profile
from workloads.tasks.own_model.settings import OwnModelSettings
from workloads.tasks.own_model.task import OwnFunctions


def train_plainly(trial: Context) -> dict[str, float]:
    """Train for one epoch in the order of the seed; return the losses of the end."""
    torch.manual_seed(trial.seed)
    settings = dict(trial.settings)
    module = own_modules.build(settings)
    optimizer = own_modules.optimizer(module.parameters(), settings)
    (inputs, targets), validation = own_modules.load(settings)
    order = np.random.default_rng([trial.seed, 1]).permutation(len(inputs))
    x, y = torch.from_numpy(inputs[order]), torch.from_numpy(targets[order])
    total, size = 0.0, settings["batch_size"]
    for start in range(0, len(x), size):
        batch_x, batch_y = x[start : start + size], y[start : start + size]
        optimizer.zero_grad()
        loss = own_modules.loss(module(batch_x), batch_y)
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * len(batch_x)
    with torch.no_grad():
        outputs, wanted = module(torch.from_numpy(validation[0])), torch.from_numpy(validation[1])
        val_loss = own_modules.loss(outputs, wanted)
        val_mae = own_modules.metrics(outputs, wanted)["mae"]
    return {"loss": total / len(x), "val_loss": float(val_loss), "val_mae": float(val_mae)}


def train_in_order(trial: Context) -> dict[str, float]:
    """Train a module that carries its state, which each epoch begins anew; return the last loss."""
    torch.manual_seed(trial.seed)
    settings = dict(trial.settings)
    module = carrying_modules.build(settings)
    optimizer = carrying_modules.optimizer(module.parameters(), settings)
    (inputs, targets), _ = carrying_modules.load_parts(settings)
    size, total = settings["batch_size"], 0.0
    for _ in range(settings["epochs"]):
        module.hidden, total = None, 0.0
        for start in range(0, len(inputs), size):
            batch = (torch.from_numpy(part[start : start + size]) for part in (inputs, targets))
            batch_x, batch_y = batch
            optimizer.zero_grad()
            loss = carrying_modules.loss(module(batch_x), batch_y)
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * size
    return {"loss": total / len(inputs)}


def train_without_a_compiler(trial: Context) -> dict[str, float]:
    """Train where `torch.compile` cannot build a program."""
    entry = f"{own_modules.__name__}:load"
    task = OwnFunctions(own_modules.build, entry, own_modules.load).as_task()
    with mock.patch.object(compiling, "compile_refusal_reason", return_value="no compiler"):
        return measure(task, OwnModelSettings(**trial.settings), trial)


def compile_twice(trial: Context) -> dict[str, float]:
    """Compile one module twice; return how often the second time used a program of the first."""
    module = torch.nn.Linear(3, 5)
    for _ in range(2):
        compiling.compile_module(module)(torch.ones(4, 3))
    return {
        "graphs": float(compiling.compilation_count()),
        "hits": float(counters["inductor"]["fxgraph_cache_hit"]),
        "misses": float(counters["inductor"]["fxgraph_cache_miss"]),
    }


def may_round_to_tf32(trial: Context) -> dict[str, float]:
    """Return whether PyTorch and cuDNN may round to TF32 in a trial of the implementation."""
    with prepare_framework(trial):
        return {
            "products": float(torch.backends.cuda.matmul.allow_tf32),
            "cudnn": float(torch.backends.cudnn.allow_tf32),
        }


def prove_as_on_a_gpu_that_rounds(trial: Context) -> dict[str, float]:
    """Report the evidence of a module here, as if its products had been rounded to TF32."""
    build = own_modules.build_float64 if trial.settings["double"] else own_modules.build_cells
    module = build(dict(trial.settings))
    inputs = torch.ones(2, 5, 3, dtype=next(module.parameters()).dtype)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        module(inputs)
    proof = prove_profile(list(profiler.profiler.kineto_results.events()), "here", rounds=True)
    trial.kernel(trial.implementation.kernel_text, proof.ran, proof.evidence)
    return {}

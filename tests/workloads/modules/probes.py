"""A training of an example module as its author would write it, inside a trainer process."""

import numpy as np
import torch
from torch._dynamo.utils import counters

from tests.workloads.examples import own_modules
from workloads.context import Context
from workloads.modules import compiling


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

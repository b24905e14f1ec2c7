"""A training of an example module as its author would write it, inside a trainer process."""

import numpy as np
import torch

from tests.workloads.examples import own_modules
from workloads.context import Context


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

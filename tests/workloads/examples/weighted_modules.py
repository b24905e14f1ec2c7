"""A PyTorch module whose data are weighted samples: from a DataLoader, or as arrays."""

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.workloads.examples import own_modules

Settings = dict[str, Any]


def build(settings: Settings) -> nn.Module:
    return own_modules.build(settings)


def loss(outputs: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> Any:
    return (weights[:, None] * (outputs - targets) ** 2).mean()


def optimizer(parameters: Any, settings: Settings) -> Any:
    return torch.optim.SGD(parameters, lr=0.0)  # the loss depends on data and weights alone


def load_arrays(settings: Settings) -> Any:
    (inputs, targets), _ = own_modules.load(settings)
    weights = torch.linspace(0.5, 1.5, len(inputs)) * settings.get("weight", 1.0)
    return inputs, targets, weights.numpy()


def load(settings: Settings) -> Any:
    tensors = map(torch.from_numpy, load_arrays(settings))
    return DataLoader(TensorDataset(*tensors), batch_size=5)

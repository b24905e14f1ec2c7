"""A PyTorch module and its DataLoader, as a user writes them, for sweeps with many options."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Forecaster(nn.Module):
    """Layers of LSTM, and the value that follows their last step."""

    def __init__(self, units: int, depth: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(3, units, depth, batch_first=True)
        self.head = nn.Linear(units, 1)

    def forward(self, sequences: torch.Tensor) -> Any:
        return self.head(self.recurrent(sequences)[0][:, -1])


def build(settings: Mapping[str, Any]) -> nn.Module:
    return Forecaster(int(settings["units"]), int(settings.get("depth", 1)))


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> Any:
    return nn.functional.mse_loss(outputs, targets)


def optimizer(parameters: Iterator[nn.Parameter], settings: Mapping[str, Any]) -> Any:
    return torch.optim.Adam(parameters, float(settings.get("rate", 0.001)))


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> Any:
    return {"mae": (outputs - targets).abs().mean()}


def load(settings: Mapping[str, Any]) -> Any:
    """Return loaders in an order that PyTorch draws, which must be the same in each trial."""
    sequences = torch.randn(60, 4, 3, generator=torch.Generator().manual_seed(1))
    samples = TensorDataset(sequences, 3 + sequences.mean(dim=(1, 2))[:, None])
    training, validation = torch.utils.data.Subset(samples, range(48)), samples[48:]
    return DataLoader(training, batch_size=7, shuffle=True), DataLoader(
        TensorDataset(*validation), batch_size=5
    )

"""PyTorch modules of a user's own with their loss, some of which break a rule."""

from typing import Any

import numpy as np
import torch
from torch import nn

Settings = dict[str, Any]


class Forecaster(nn.Module):
    """A library's recurrent layer, and the value that follows its last step."""

    def __init__(self, layer: type[nn.RNNBase], units: int) -> None:
        super().__init__()
        self.recurrent = layer(3, units, batch_first=True)
        self.head = nn.Linear(units, 1)

    def forward(self, sequences: torch.Tensor) -> Any:
        return self.head(self.recurrent(sequences)[0][:, -1])


class CellLoop(nn.Module):
    """A loop of Python over the steps."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(3, units), nn.Linear(units, 1)

    def forward(self, sequences: torch.Tensor) -> Any:
        hidden = state = sequences.new_zeros(len(sequences), self.cell.hidden_size)
        for step in sequences.unbind(1):
            hidden, state = self.cell(step, (hidden, state))
        return self.head(hidden)


class LoopWithDecision(CellLoop):
    """A loop after a decision of Python about a number, which no graph has."""

    def forward(self, sequences: torch.Tensor) -> Any:
        return super().forward(sequences if sequences.mean() < 1e6 else sequences / 2)


class ForOneSize(CellLoop):
    """A loop whose first state is made for one batch size."""

    def __init__(self, units: int, batch_size: int) -> None:
        super().__init__(units)
        self.batch_size = batch_size

    def forward(self, sequences: torch.Tensor) -> Any:
        first = torch.zeros(self.batch_size, self.cell.hidden_size)
        return self.head(self.cell(sequences[:, 0], (first, first))[0])


def build(settings: Settings) -> nn.Module:
    return Forecaster(nn.LSTM, settings["units"])


def build_cells(settings: Settings) -> nn.Module:
    return CellLoop(settings["units"])


def build_with_decision(settings: Settings) -> nn.Module:
    return LoopWithDecision(settings["units"])


def build_for_one_size(settings: Settings) -> nn.Module:
    return ForOneSize(settings["units"], settings["batch_size"])


def build_bfloat16(settings: Settings) -> nn.Module:
    return CellLoop(settings["units"]).bfloat16()


def build_float64(settings: Settings) -> nn.Module:
    return CellLoop(settings["units"]).double()


def build_at_random(settings: Settings) -> nn.Module:
    return Forecaster(nn.LSTM, int(torch.randint(8, 10_000, ())))


def build_frozen(settings: Settings) -> nn.Module:
    return build(settings).requires_grad_(False)


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> Any:
    return nn.functional.mse_loss(outputs, targets)


def optimizer(parameters: Any, settings: Settings) -> Any:
    kind: Any = getattr(torch.optim, settings.get("optimizer", "SGD"))
    return kind(parameters, lr=0.1)


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> Any:
    return {"mae": (outputs - targets).abs().mean()}


def load(settings: Settings) -> Any:
    inputs = np.random.default_rng(1).normal(size=(44, 5, 3)).astype(np.float32)
    targets = inputs.mean(axis=(1, 2))[:, np.newaxis]
    return (inputs[:28], targets[:28]), (inputs[28:], targets[28:])


def load_wide(settings: Settings) -> Any:
    return np.ones((40, 5, 4), np.float32), np.ones((40, 1), np.float32)


def load_missing_values(settings: Settings) -> Any:
    return np.full((40, 5, 3), np.nan, np.float32), np.ones((40, 1), np.float32)

"""PyTorch modules with habits of public code: methods of their own names, sparse gradients."""

from typing import Any

import numpy as np
import torch
from torch import nn

from tests.workloads.examples.own_modules import Forecaster, Settings, load, loss

__all__ = ["load", "loss"]


class WithTrainMethod(Forecaster):
    """A module that trains itself by a method of the name that PyTorch has for the mode."""

    def train(self, x: Any, y: Any) -> None:
        raise AssertionError("nobody called it")


class Frozen(Forecaster):
    """A module whose head stays in inference mode."""

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.head.training = False
        return self


class Sparse(nn.Module):
    """A table whose gradients are sparse."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.table = nn.Embedding(11, units, sparse=True)
        self.lstm = nn.LSTM(units, units, batch_first=True)
        self.head = nn.Linear(units, 1)

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.head(self.lstm(self.table(tokens))[0][:, -1])


def build_with_train_method(settings: Settings) -> nn.Module:
    return WithTrainMethod(nn.LSTM, settings["units"])


def build_sparse(settings: Settings) -> nn.Module:
    return Sparse(settings["units"])


def optimizer(parameters: Any, settings: Settings) -> Any:
    return torch.optim.SGD(parameters, lr=0.1)


def load_tokens(settings: Settings) -> Any:
    tokens = np.random.default_rng(1).integers(0, 11, size=(44, 5))
    return tokens, tokens.mean(axis=1, keepdims=True).astype(np.float32)

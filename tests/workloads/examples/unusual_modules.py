"""PyTorch modules with habits of public code, which PyTorch allows and few expect."""

import random
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


class OneSize(Forecaster):
    """A module that knows the size of its batches."""

    def __init__(self, units: int, batch_size: int) -> None:
        super().__init__(nn.LSTM, units)
        self.batch_size = batch_size

    def forward(self, sequences: torch.Tensor) -> Any:
        return super().forward(sequences.reshape(self.batch_size, 5, 3))


class Packing(nn.Module):
    """A module that packs its sequences, which have to come from the longest to the shortest."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, units, batch_first=True), nn.Linear(units, 1)

    def forward(self, sequences: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(sequences, lengths, batch_first=True)
        return self.head(self.lstm(packed)[1][0][-1])


class Writing(Forecaster):
    """A module that puts what it has learned into its inputs, in place of a first step."""

    def __init__(self, units: int) -> None:
        super().__init__(nn.LSTM, units)
        self.start = nn.Parameter(torch.zeros(3))

    def forward(self, sequences: torch.Tensor) -> Any:
        sequences[:, 0] = self.start
        return super().forward(sequences)


class Drawing(Forecaster):
    """A module that decides by Python's and NumPy's generators, as teacher forcing does."""

    def forward(self, sequences: torch.Tensor) -> Any:
        outputs = super().forward(sequences)
        return outputs * (1 + random.random() + np.random.random()) if self.training else outputs


def build_with_train_method(settings: Settings) -> nn.Module:
    return WithTrainMethod(nn.LSTM, settings["units"])


def build_sparse(settings: Settings) -> nn.Module:
    return Sparse(settings["units"])


def build_of_one_size(settings: Settings) -> nn.Module:
    return OneSize(settings["units"], settings["batch_size"])


def build_packing(settings: Settings) -> nn.Module:
    return Packing(settings["units"])


def build_writing(settings: Settings) -> nn.Module:
    return Writing(settings["units"])


def build_drawing(settings: Settings) -> nn.Module:
    return Drawing(nn.LSTM, settings["units"])


def optimizer(parameters: Any, settings: Settings) -> Any:
    return torch.optim.SGD(parameters, lr=0.1)


def load_tokens(settings: Settings) -> Any:
    tokens = np.random.default_rng(1).integers(0, 11, size=(44, 5))
    return tokens, tokens.mean(axis=1, keepdims=True).astype(np.float32)


def load_from_the_longest(settings: Settings) -> Any:
    """Return what `load` does, with the sequences' lengths."""
    lengths = np.sort(np.random.default_rng(1).integers(1, 6, size=44))[::-1].copy()
    parts, where = load(settings), (slice(28), slice(28, None))
    return tuple(((x, lengths[rows]), y) for (x, y), rows in zip(parts, where, strict=True))

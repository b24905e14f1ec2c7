"""PyTorch modules that carry a state from batch to batch, or have their loss inside."""

from typing import Any

import numpy as np
import torch
from torch import nn

Settings = dict[str, Any]


class Carrying(nn.Module):
    """A GRU that starts a batch with the last state of the batch before it."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(3, units, batch_first=True), nn.Linear(units, 1)
        self.hidden: torch.Tensor | None = None

    def forward(self, sequences: torch.Tensor) -> Any:
        outputs, state = self.recurrent(sequences, self.hidden)
        self.hidden = state.detach()
        return self.head(outputs[:, -1])


class CarryingSums(nn.Module):
    """Sums that go on from batch to batch: operations that `torch.compile` puts into a graph."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(3, units), nn.Linear(units, 1)
        self.sums: torch.Tensor | None = None

    def forward(self, sequences: torch.Tensor) -> Any:
        sums = torch.tanh(self.inner(sequences.mean(1)))
        sums = sums if self.sums is None else sums + self.sums
        self.sums = sums.detach()
        return self.head(sums)


class Caching(nn.Module):
    """A module that keeps its last outputs, and does not read them."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(3, units, batch_first=True), nn.Linear(units, 1)

    def forward(self, sequences: torch.Tensor) -> Any:
        self.seen = self.recurrent(sequences)[0]
        return self.head(self.seen[:, -1])


class WithLoss(nn.Module):
    """A tagger of tokens that returns its own loss, in `other` mode something else.

    With `other` as "shape" the loss is an array of one number.
    """

    def __init__(self, units: int, *, other: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, units, sparse=True)
        self.head, self.other = nn.Linear(units, 20), other

    def forward(self, tokens: torch.Tensor) -> Any:
        scores = self.head(self.embedding(tokens[:, :-1]))
        if self.other == "eval" and not self.training:
            return scores.argmax(-1).tolist()
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        if self.other == "both":
            return loss.detach().numpy()
        return loss[None] if self.other == "shape" else loss


class OtherBackward(torch.autograd.Function):
    """An operation without a gradient."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no gradient of this operation")


class Failing(Caching):
    """A module whose backward pass fails."""

    def forward(self, sequences: torch.Tensor) -> Any:
        return OtherBackward.apply(super().forward(sequences))


def build(settings: Settings) -> nn.Module:
    return Carrying(settings["units"])


def build_sums(settings: Settings) -> nn.Module:
    return CarryingSums(settings["units"])


def build_caching(settings: Settings) -> nn.Module:
    return Caching(settings["units"])


def build_with_loss(settings: Settings) -> nn.Module:
    return WithLoss(settings["units"], other="none")


def build_with_loss_in_array(settings: Settings) -> nn.Module:
    return WithLoss(settings["units"], other="shape")


def build_decoder(settings: Settings) -> nn.Module:
    return WithLoss(settings["units"], other="eval")


def build_failing(settings: Settings) -> nn.Module:
    return Failing(settings["units"])


def loss(outputs: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
    return outputs if targets is None else nn.functional.mse_loss(outputs, targets)


def optimizer(parameters: Any, settings: Settings) -> Any:
    kind: Any = getattr(torch.optim, settings.get("optimizer", "SGD"))
    return kind(parameters, lr=0.1)


def load(settings: Settings) -> Any:
    inputs = np.random.default_rng(1).normal(size=(40, 5, 3)).astype(np.float32)
    return inputs, inputs.mean(axis=(1, 2))[:, np.newaxis]


def load_parts(settings: Settings) -> Any:
    inputs, targets = load(settings)
    return (inputs[:24], targets[:24]), (inputs[24:], targets[24:])


def load_tokens(settings: Settings) -> Any:
    tokens = np.random.default_rng(1).integers(0, 20, (40, 6))
    tokens[30, 2] = settings.get("late_token", 0)
    return (tokens,)

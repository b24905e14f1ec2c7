"""A PyTorch module of a user's own without any function that trains it."""

from typing import Any

from torch import nn

from tests.workloads.examples import own_modules


def build(settings: dict[str, Any]) -> nn.Module:
    return own_modules.build(settings)

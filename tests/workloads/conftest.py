"""Trainer processes that are shared: importing TensorFlow costs seconds, once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.workloads.asking import Trainer


@pytest.fixture(scope="session")
def trainer() -> Iterator[Trainer]:
    """A warm trainer that runs TensorFlow on the CPU."""
    with Trainer() as process:
        yield process


@pytest.fixture(scope="session")
def light() -> Iterator[Trainer]:
    """A trainer that imports no framework."""
    with Trainer() as process:
        yield process

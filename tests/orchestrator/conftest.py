"""Trainers of real processes, for tests of whoever keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.execution.trainer_pool import Trainers


@pytest.fixture
def trainers() -> Iterator[Trainers]:
    """None at first; those that a test starts end with it."""
    held: Trainers = {}
    yield held
    for trainer in held.values():
        trainer.close()

"""TrainerPool of real processes, for tests of whoever keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.execution.trainer_pool import TrainerPool


@pytest.fixture
def trainers() -> Iterator[TrainerPool]:
    """None at first; those that a test starts end with it."""
    held: TrainerPool = {}
    yield held
    for trainer in held.values():
        trainer.close()

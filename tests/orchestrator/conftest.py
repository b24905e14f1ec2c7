"""A pool of real trainers, for tests of whoever keeps them."""

from collections.abc import Iterator

import pytest

from orchestrator.execution.trainer_pool import TrainerPool


@pytest.fixture
def trainers() -> Iterator[TrainerPool]:
    pool = TrainerPool()
    yield pool
    pool.close()

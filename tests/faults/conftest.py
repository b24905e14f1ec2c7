"""Random faults from a seed that is printed: `RNNSWEEP_FAULT_SEED=N` repeats a failure."""

import os
import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.orchestrator.cli.conftest import home, run

__all__ = ["faults", "home", "run"]

SCALE = float(os.environ.get("RNNSWEEP_FAULT_SCALE", "1"))
"""How many times the usual number of faults: `make soak` sets it."""

T = TypeVar("T")
Faults = Callable[[int], tuple[random.Random, int]]


@pytest.fixture
def faults() -> Faults:
    """Return a generator of random numbers, and how many faults to draw of a usual number."""

    def drawn(usual: int) -> tuple[random.Random, int]:
        seed = int(os.environ.get("RNNSWEEP_FAULT_SEED", random.SystemRandom().randrange(10**6)))
        print(f"repeat with RNNSWEEP_FAULT_SEED={seed}")
        return random.Random(seed), round(usual * SCALE)

    return drawn

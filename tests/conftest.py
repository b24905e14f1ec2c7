"""For all tests: how they share a machine with each other, and where they may write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy one would miss any
settings.load_profile("any machine")

# Threads of PyTorch that wait for each other by spinning take minutes for what takes seconds, once
# another process wants their cores: here several trainers share them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

os.environ.setdefault("RNNSWEEP_CACHE", tempfile.mkdtemp(prefix="rnnsweep-cache-"))


@pytest.fixture(autouse=True)
def rays_environment() -> Iterator[None]:
    """What a test tells Ray by the environment, through the code that it tests, ends with it."""
    before = {name: value for name, value in os.environ.items() if _is_rays(name)}
    yield
    for name in filter(_is_rays, list(os.environ)):
        if name not in before:
            del os.environ[name]
    os.environ.update(before)


def _is_rays(name: str) -> bool:
    return name.startswith(("RAY_", "TUNE_"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The shortest files last, so that no worker waits for another's long one at the end."""
    shortest = Path(__file__).with_name("orchestrator")
    items.sort(key=lambda item: item.path.is_relative_to(shortest))

"""Settings for all tests: sharing the machine, and folders that tests may write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy machine would miss any deadline
settings.load_profile("any machine")

# PyTorch's threads wait for each other by spinning, which turns seconds into minutes once another
# process uses their cores. Several trainers share the cores here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

os.environ.setdefault("RNNSWEEP_CACHE", tempfile.mkdtemp(prefix="rnnsweep-cache-"))


@pytest.fixture(autouse=True)
def restore_rays_environment() -> Iterator[None]:
    """Restore Ray's environment variables, which the code under test may change."""
    before = {name: value for name, value in os.environ.items() if _is_rays(name)}
    yield
    for name in filter(_is_rays, list(os.environ)):
        if name not in before:
            del os.environ[name]
    os.environ.update(before)


def _is_rays(name: str) -> bool:
    return name.startswith(("RAY_", "TUNE_"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the shortest files last, so that no worker waits for another's long file at the end."""
    shortest = Path(__file__).with_name("orchestrator")
    items.sort(key=lambda item: item.path.is_relative_to(shortest))

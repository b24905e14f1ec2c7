"""Settings for all tests: sharing the machine, and folders that tests may write."""

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.profiles import IN_CI

# No deadline: a busy machine would miss any.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("ci", deadline=None, max_examples=100)
settings.load_profile("ci" if IN_CI else "quick")

# PyTorch's threads wait for each other by spinning, which turns seconds into minutes once another
# process uses their cores. Several trainers share the cores here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell starts its background jobs with SIGINT ignored, which programs under test would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("RNNSWEEP_CACHE", tempfile.mkdtemp(prefix="rnnsweep-cache-"))


@pytest.fixture(autouse=True)
def restore_rays_environment() -> Iterator[None]:
    before = {name: value for name, value in os.environ.items() if _is_rays(name)}
    yield
    for name in filter(_is_rays, list(os.environ)):
        if name not in before:
            del os.environ[name]
    os.environ.update(before)


def _is_rays(name: str) -> bool:
    return name.startswith(("RAY_", "TUNE_"))

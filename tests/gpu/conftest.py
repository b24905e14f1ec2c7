"""Shared trainers on the CPU, because importing a framework takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpu.lab import Lab
from tests.gpu.sizes import QUICK
from workloads.eligibility import is_installed
from workloads.implementations import BACKENDS


@pytest.fixture(scope="session")
def cpu_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Tiny checks on the CPU, with the backends that are installed."""
    backends = [backend for backend in BACKENDS if is_installed(backend)]
    with Lab("cpu", QUICK, backends, scratch=tmp_path_factory.mktemp("lab")) as lab:
        yield lab

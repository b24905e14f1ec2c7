"""One cluster for all tests of a module, if this machine can run it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.cluster import hosts
from tests.cluster.lab import Lab, postgresql
from tests.lacking import skip_here


@pytest.fixture(scope="module", autouse=True)
def require_request() -> None:
    """Skip these tests unless they are requested."""
    if os.environ.get("RNNSWEEP_TEST_CLUSTER") != "1":
        pytest.skip("a cluster on one machine takes minutes: make test-cluster")


def obstacle() -> str | None:
    """Return the reason why this machine can run no cluster, or None."""
    if (reason := hosts.obstacle()) is not None:
        return reason
    if len(os.sched_getaffinity(0)) < 2:
        return "two classes of CPU need two CPUs"
    if postgresql() is None:
        return "PostgreSQL is not installed (Debian: postgresql)"
    if all(shutil.which(name) is None for name in ("cc", "gcc", "clang")):
        return "no C compiler for the simulated NVML (Debian: gcc)"
    return None


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """The running cluster."""
    if (reason := obstacle()) is not None:
        skip_here(f"no cluster here: {reason}")
    lab = Lab()
    try:
        yield lab.open()
    finally:
        lab.close()

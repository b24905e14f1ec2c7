"""One cluster for all of these tests, where there can be one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.cluster import hosts
from tests.cluster.lab import Lab, postgresql
from tests.lacking import skip_here


@pytest.fixture(scope="module", autouse=True)
def asked_for() -> None:
    """Nothing here runs unasked."""
    if os.environ.get("RNNSWEEP_TEST_CLUSTER") != "1":
        pytest.skip("a cluster on one machine takes minutes: make test-cluster")


def why_not() -> str | None:
    """Why there can be no cluster here; None where there can."""
    if (reason := hosts.why_not()) is not None:
        return reason
    if len(os.sched_getaffinity(0)) < 2:
        return "two classes of CPU need two CPUs"
    if postgresql() is None:
        return "PostgreSQL is not installed (Debian: postgresql)"
    if all(shutil.which(each) is None for each in ("cc", "gcc", "clang")):
        return "no C compiler for the stand-in for NVML (Debian: gcc)"
    return None


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """The cluster."""
    if (reason := why_not()) is not None:
        skip_here(f"no cluster here: {reason}")
    lab = Lab()
    try:
        yield lab.open()
    finally:
        lab.close()

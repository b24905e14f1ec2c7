"""One cluster for all tests of a module, if this machine can run it."""

import os
from collections.abc import Iterator

import pytest

from tests.cluster import hosts
from tests.cluster.lab import Lab, postgresql
from tests.lacking import skip_here


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    reason = hosts.obstacle()
    if len(os.sched_getaffinity(0)) < 2:
        reason = "two classes of CPU need two CPUs"
    if postgresql() is None:
        reason = "PostgreSQL is not installed (Debian: postgresql)"
    if reason is not None:
        skip_here(f"no cluster here: {reason}")
    lab = Lab()
    try:
        yield lab.open()
    finally:
        lab.close()

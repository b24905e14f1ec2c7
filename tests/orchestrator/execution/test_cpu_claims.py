"""CPUs claimed by processes of a node, with the kernel's own sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from orchestrator.execution.trainer_pool import CpuClaims, CpusTaken


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CpuClaims]]:
    """Five claimants on a machine of eight CPUs (numbers 0-3 and 8-11), which has no others."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 8, 9, 10, 11})
    made = [CpuClaims(f"rnnsweep-test-{os.getpid()}", patience_s=0.0) for _ in range(5)]
    yield made
    for claimant in made:
        claimant.release()


def test_each_claimant_has_cpus_of_its_own(claims: list[CpuClaims]) -> None:
    assert [claimant.take(2) for claimant in claims[:4]] == [(0, 1), (2, 3), (8, 9), (10, 11)]
    with pytest.raises(CpusTaken, match="needs 2 CPUs of its own; of the 8"):
        claims[4].take(2)
    claims[1].release()
    assert claims[4].take(2) == (2, 3)


def test_a_claimant_keeps_what_it_has_and_holds_nothing_after_a_failed_claim(
    claims: list[CpuClaims],
) -> None:
    assert claims[0].take(4) == claims[0].take(4) == (0, 1, 2, 3)
    assert claims[0].take(2) == (0, 1)
    with pytest.raises(CpusTaken):
        claims[1].take(5)
    assert claims[2].take(4) == (8, 9, 10, 11)


def test_a_killed_claimants_cpus_are_free_again() -> None:
    prefix = f"rnnsweep-test-killed-{os.getpid()}"
    code = (
        "import os, sys; from orchestrator.execution.trainer_pool import CpuClaims;"
        f"claims = CpuClaims({prefix!r}); claims.take(len(os.sched_getaffinity(0)));"
        "print('held', flush=True); sys.stdin.read()"
    )
    claims = CpuClaims(prefix, patience_s=0.0)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CpusTaken):
            claims.take(1)
        holder.kill()
        holder.wait()
    assert len(claims.take(1)) == 1
    claims.release()

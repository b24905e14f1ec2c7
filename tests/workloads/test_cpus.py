from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import hardware
from workloads import cpus


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_cgroup_quota_limits_the_cpus(tmp_path: Path, text: str, expected: int | None) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(text)
    everything = cpus.usable_cpus(tmp_path / "absent")
    assert cpus.usable_cpus(file) == (expected or everything)


def test_placement_counts_the_same_cpus() -> None:
    assert hardware.probe().cpus == cpus.usable_cpus()


def test_a_trainer_has_as_many_threads_as_the_quota_allows(tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    file.write_text("100000 100000")
    code = (
        "import pathlib, sys; from workloads import cpus;"
        "cpus.usable_cpus.__defaults__ = (pathlib.Path(sys.argv[1]),);"
        "from workloads import runtime; runtime.configure('float32');"
        "print(runtime.facts()['usable_cpus'], runtime.facts()['intra_op_threads'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "1"]

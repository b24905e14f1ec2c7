from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import hardware
from tests.workloads.shared_trainer import expect_package
from workloads import cpus
from workloads.backend import environment_for
from workloads.implementations import BACKENDS, parse_implementation


def group(root: Path, quota: str) -> Path:
    """Write a cgroup tree of version 2 with this CPU quota."""
    folder = root / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text("cpu memory\n")
    (folder / "cpu.max").write_text(quota)
    return root


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_cgroup_quota_limits_the_cpus(tmp_path: Path, text: str, expected: int | None) -> None:
    everything = cpus.usable_cpus(tmp_path / "absent")
    assert cpus.usable_cpus(group(tmp_path, text)) == (expected or everything)


def test_placement_counts_the_same_cpus() -> None:
    assert hardware.probe().cpus == cpus.usable_cpus()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trainer_has_as_many_threads_as_the_quota_allows(backend: str, tmp_path: Path) -> None:
    expect_package(backend)
    code = (
        "import pathlib, sys; from workloads import cpus;"
        "cpus.usable_cpus.__defaults__ = (pathlib.Path(sys.argv[1]),);"
        "from workloads import frameworks, implementations;"
        "framework = frameworks.load_framework(sys.argv[2]);"
        "parse = implementations.parse_implementation;"
        "framework.configure(parse(f'{sys.argv[2]}/portable'), 'cpu');"
        "print(framework.facts()['usable_cpus'], framework.facts()['intra_op_threads'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(group(tmp_path, "100000 100000")), backend],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment_for(parse_implementation(f"{backend}/portable"), "cpu")},
    )
    assert done.stdout.split() == ["1", "1"]


def test_xla_has_the_requested_number_of_threads(tmp_path: Path) -> None:
    expect_package("jax")
    code = (
        "import os, pathlib; os.environ['PJRT_NPROC'] = '1'; import jax.numpy;"
        "jax.numpy.ones((999, 999)).dot(jax.numpy.ones((999, 999))).block_until_ready();"
        "names = [comm.read_text() for comm in pathlib.Path('/proc/self/task').glob('*/comm')];"
        "print(sum('XLAEigen' in name for name in names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment_for(parse_implementation("jax/portable"), "cpu")},
    )
    assert done.stdout.split() == ["1"]

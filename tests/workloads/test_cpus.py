"""Limits of containers, jobs and services, and the CPUs that follow from them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import hardware
from tests.commands import python
from tests.workloads.shared_trainer import expect_package
from workloads import resources
from workloads.implementations import BACKENDS, parse_implementation
from workloads.process import environment_for
from workloads.resources import CgroupLimits, read_limits

CASES = yaml.safe_load(Path(__file__).with_name("cgroups.yaml").read_text())


def tree(root: Path, group: str, files: Mapping[str, str]) -> Path:
    paths = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": group, **paths}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def version_2(**limits: str) -> dict[str, str]:
    names = {name.replace("_", "."): text for name, text in limits.items()}
    return {"cgroup.controllers": "cpuset cpu io memory pids\n", **names}


@pytest.mark.parametrize("case", CASES)
def test_limits(tmp_path: Path, case: dict[str, Any]) -> None:
    root = tree(tmp_path, case["group"], case["files"])
    assert read_limits(root) == CgroupLimits(*case["limits"])


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_cgroup_quota_limits_the_cpus(tmp_path: Path, quota: str, expected: int | None) -> None:
    everything = resources.usable_cpus(tmp_path / "absent")
    root = tree(tmp_path, "0::/\n", version_2(cpu_max=quota))
    assert resources.usable_cpus(root) == (expected or everything)
    assert hardware.probe().cpus == resources.usable_cpus(), "placement counts the same CPUs"


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trainer_has_as_many_threads_as_the_quota_allows(backend: str, tmp_path: Path) -> None:
    expect_package(backend)
    code = (
        "import pathlib, sys; from workloads import resources;"
        "resources.usable_cpus.__defaults__ = (pathlib.Path(sys.argv[1]),);"
        "from workloads import frameworks, implementations;"
        "framework = frameworks.load_framework(sys.argv[2]);"
        "parse = implementations.parse_implementation;"
        "framework.configure(parse(f'{sys.argv[2]}/portable'), 'cpu');"
        "print(framework.facts()['usable_cpus'], framework.facts()['intra_op_threads'])"
    )
    root = tree(tmp_path, "0::/\n", version_2(cpu_max="100000 100000"))
    own = environment_for(parse_implementation(f"{backend}/portable"), "cpu")
    done = python("-c", code, root, backend, environ={**os.environ, **own}).expect()
    assert done.out.split() == ["1", "1"]

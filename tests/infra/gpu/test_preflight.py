"""The preflight, with a scripted nvidia-smi in place of a GPU."""

import os
import sys
from pathlib import Path

import pytest

from infra.gpu import preflight
from tests.commands import Command

H100 = "NVIDIA H100 80GB HBM3, 580.95.05, 9.0, Disabled"


@pytest.mark.parametrize(
    ("listing", "cuda", "problem"),
    [
        (H100, 13, ""),
        ("Tesla T4, 550.54, 7.5, [N/A]", 12, ""),
        ("Tesla T4, 550.54, 7.5, [N/A]", 13, "CUDA 13 needs 580"),
        ("Tesla V100, 580.95, 7.0, [N/A]", 13, "compute capability 7.0"),
        ("NVIDIA A100, 580.95, 8.0, Enabled", 13, "MIG is enabled"),
    ],
)
def test_a_gpu_must_fit_the_cuda_that_is_asked_for(listing: str, cuda: int, problem: str) -> None:
    problems = preflight.gpu_problems(listing, cuda)
    assert problem in " ".join(problems)
    assert bool(problems) == bool(problem)


def test_python_and_the_disk_must_fit() -> None:
    fits = {version: not preflight.python_problems((3, version)) for version in range(10, 16)}
    assert fits == {10: False, 11: True, 12: True, 13: True, 14: False, 15: False}
    assert [bool(preflight.disk_problems(gb)) for gb in (30.0, 12.0)] == [False, True]


@pytest.mark.parametrize(
    ("backends", "fits"),
    [
        ("torch,jax", True),
        ("tensorflow,torch", False),
        ("tensorlfow,jax", False),
    ],
)
def test_backends_must_share_an_environment(backends: str, fits: bool) -> None:
    problem = preflight.backends_problem(backends)
    assert bool(problem) != fits
    assert fits or {"GPU_BACKENDS=torch,jax", "GPU_BACKENDS=tensorflow,jax"} <= set(problem.split())


def test_make_refuses_backends_of_two_environments_before_it_installs(tmp_path: Path) -> None:
    python = tmp_path / "python"  # the interpreter, which runs the preflight alone
    python.write_text(
        f'#!/bin/sh\n[ "$1" = infra/gpu/preflight.py ] && exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    environment = tmp_path / "environment"
    names = f"GPU_VENV={environment}", f"PYTHON={python}", "GPU_BACKENDS=tensorflow,torch"
    words = ("make", "-C", Path(__file__).parents[3], "gpu", *names)
    done = Command(words, {"PATH": os.defpath}).done().expect(2)
    assert "docs/gpu.md" in done.err
    assert not environment.exists()


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        (f"echo '{H100}'", 0, "ready for CUDA 13"),
        (None, 1, "nvidia-smi is missing"),
    ],
)
def test_it_runs_with_the_standard_library_alone(
    tmp_path: Path, script: str | None, code: int, said: str
) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".ready").touch()  # whatever the disk and the Python of this machine
    if script is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/nowhere" if script is None else f"{tmp_path}:{os.defpath}"}
    words = (preflight.__file__, "--cuda", "13", "--environment", tmp_path / ".venv")
    done = Command([sys.executable, "-I", "-S", *words], environ).done().expect(code)
    assert said in done.err

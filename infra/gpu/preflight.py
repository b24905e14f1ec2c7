"""Check a machine before gigabytes are downloaded for its GPU: backends, driver, GPU, Python, disk.

It needs Python's standard library alone: `python3 infra/gpu/preflight.py --cuda 13`. The exit code
is 1 if something does not fit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

BACKENDS = {13: ("torch", "jax"), 12: ("tensorflow", "jax")}
"""The backends of each environment that `make gpu` can install, by its CUDA."""

MIN_DRIVER = {12: 525, 13: 580}
"""The oldest driver (its first number) for each CUDA."""

MIN_CAPABILITY = {12: 6.0, 13: 7.5}
"""The oldest GPUs that the packages for each CUDA have code for: Pascal, and Turing."""

MIN_PYTHON, MAX_PYTHON = (3, 11), (3, 13)
"""The newest Python is the newest one that TensorFlow 2.21 has packages for."""

DISK_GB = 25.0
"""What the packages of an environment take, with the downloads and the results."""

_QUERY = "name,driver_version,compute_cap,mig.mode.current"


def main() -> int:
    parser = argparse.ArgumentParser(prog="preflight.py", description=__doc__)
    parser.add_argument("--cuda", type=int, choices=sorted(MIN_DRIVER), required=True)
    parser.add_argument("--environment", type=Path, default=Path(".venv-cuda"), metavar="FOLDER")
    parser.add_argument("--backends", metavar="NAMES", help="separated by commas: torch,jax")
    options = parser.parse_args()
    if options.backends is not None and (refusal := backends_problem(options.backends)):
        print(refusal, file=sys.stderr)
        return 1
    is_installed = (options.environment / ".ready").exists()
    listing, problem = list_gpus()
    problems = [problem] if problem else gpu_problems(listing, options.cuda)
    if not is_installed:
        free_gb = shutil.disk_usage(options.environment.absolute().parent).free / 1e9
        problems += python_problems(sys.version_info[:2]) + disk_problems(free_gb)
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        problems.append("CUDA_VISIBLE_DEVICES hides all GPUs: unset it")
    for line in problems or [f"ready for CUDA {options.cuda}: {listing.strip()}"]:
        print(line, file=sys.stderr)
    return 1 if problems else 0


def backends_problem(names: str) -> str:
    """Return why no environment has all of these backends, separated by commas; "" if one has."""
    asked = set(names.replace(",", " ").split())
    if asked and any(asked <= set(together) for together in BACKENDS.values()):
        return ""
    choices = [
        f"GPU_BACKENDS={','.join(together)} (CUDA {cuda})" for cuda, together in BACKENDS.items()
    ]
    known = {name for together in BACKENDS.values() for name in together}
    if not asked or asked - known:
        return f"GPU_BACKENDS={names}: expected {' or '.join(choices)}, or one of their backends"
    return (
        f"GPU_BACKENDS={names}: no environment has all of them, because TensorFlow's packages are"
        f" for CUDA 12 and PyTorch's for CUDA 13. Run one after the other: make gpu {choices[0]},"
        f" make gpu {choices[1]}. docs/gpu.md (Install) has an untested environment of CUDA 12 for"
        " both"
    )


def list_gpus() -> tuple[str, str]:
    """Return what nvidia-smi lists, and "", or "" and why it lists nothing."""
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return "", "nvidia-smi is missing: install NVIDIA's driver, or rent a machine with one"
    except subprocess.TimeoutExpired:
        return "", "nvidia-smi did not answer within 60 s: the driver hangs. Reboot the machine"
    if done.returncode or not done.stdout.strip():
        said = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
        return "", f"nvidia-smi shows no GPU: {said}"
    return done.stdout, ""


def gpu_problems(listing: str, cuda: int) -> list[str]:
    """Return what does not fit of the GPUs and the driver in the listing of nvidia-smi."""
    problems = []
    for line in listing.strip().splitlines():
        name, driver, capability, mig = (part.strip() for part in line.split(","))
        if mig == "Enabled":
            problems.append(
                f"{name}: MIG is enabled, and only whole GPUs are measured. To disable it: sudo"
                " nvidia-smi -mig 0"
            )
        if _number(capability) < MIN_CAPABILITY[cuda]:
            problems.append(
                f"{name}: compute capability {capability}; the packages for CUDA {cuda} need"
                f" {MIN_CAPABILITY[cuda]}"
            )
        if _number(driver.split(".")[0]) < MIN_DRIVER[cuda]:
            other = " (TensorFlow and JAX with CUDA 12: make gpu GPU_BACKENDS=tensorflow,jax)"
            hint = other if cuda == 13 and _number(driver.split(".")[0]) >= MIN_DRIVER[12] else ""
            problems.append(f"driver {driver}; CUDA {cuda} needs {MIN_DRIVER[cuda]} or newer{hint}")
    return list(dict.fromkeys(problems))


def python_problems(version: tuple[int, ...]) -> list[str]:
    if MIN_PYTHON <= tuple(version) <= MAX_PYTHON:
        return []
    least, most, here = (".".join(map(str, one)) for one in (MIN_PYTHON, MAX_PYTHON, version))
    return [f"Python {here}; the packages are for {least} to {most}: set PYTHON=python{most}"]


def disk_problems(free_gb: float) -> list[str]:
    if free_gb >= DISK_GB:
        return []
    return [f"only {free_gb:.0f} GB are free; the packages and results need {DISK_GB:.0f} GB"]


def _number(text: str) -> float:
    """Return a number, or infinity where the driver does not tell it."""
    try:
        return float(text)
    except ValueError:
        return float("inf")


if __name__ == "__main__":
    sys.exit(main())

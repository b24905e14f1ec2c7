"""Probe the node that this process runs on; nothing here imports a framework, or ever raises
because a GPU, its driver or a file is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

from orchestrator.hardware.cpu import cpu_model, cpu_part, read_cpu, read_fields, read_machine
from orchestrator.hardware.gpus import probe_gpus, visible_gpus
from orchestrator.hardware.profile import NodeProfile
from workloads.resources import read_limits, usable_cpus

_ROOT = Path("/")

PACKAGES = (
    "keras",
    "tensorflow",
    "jax",
    "jaxlib",
    "torch",
    "numpy",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-runtime",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
)
"""What a time may depend on and comes as a package; our own code comes with the driver."""


def probe(*, every_gpu: bool = False, root: Path = _ROOT) -> NodeProfile:
    """Return the profile of the node that this process runs on.

    Args:
        every_gpu: the node's GPUs, not only those that `CUDA_VISIBLE_DEVICES` leaves to this
            process. For a task of Ray's, to which Ray itself shows no GPU.
        root: the folder that holds `proc` and `sys`.
    """
    answers, fields = probe_gpus(root), read_fields(root)
    gpus = answers.gpus
    if not every_gpu:
        gpus = visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return NodeProfile(
        hostname=platform.node(),
        cpu_model=cpu_model(fields) or platform.processor() or platform.machine(),
        cpus=usable_cpus(root),
        memory_mib=psutil.virtual_memory().total >> 20,
        gpus=gpus,
        driver=answers.driver,
        system=platform.platform(),
        python=platform.python_version(),
        cuda=answers.cuda,
        cpu=read_cpu(root, fields),
        limits=read_limits(root),
        machine=read_machine(root, fields),
        gpu_faults=answers.faults,
        no_nvml=answers.no_nvml,
        cpu_part=cpu_part(fields),
        packages=installed(),
    )


def installed() -> Mapping[str, str]:
    """Return the versions of the installed packages, without importing them."""
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if version:  # a damaged installation has none
            versions[name] = version
    return versions

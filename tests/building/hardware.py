"""GPUs, nodes, and hardware as arms use it, named as a probe of real nodes names it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from orchestrator.core.arms import HardwareUse, Usage
from orchestrator.hardware import Gpu, Node, NodeProfile

FULL_USAGE = Usage()
TIMING_USAGE = Usage(measure="timing")


def build_gpu(
    index: int = 0, name: str = "NVIDIA H200", uuid: str | None = None, **changes: Any
) -> Gpu:
    """Return a GPU; `changes` are other fields of it."""
    return replace(Gpu(index, name, uuid or f"GPU-{index}", 140_000), **changes)


def build_node(
    name: str,
    cpus: int = 2,
    gpus: int | Sequence[Gpu] = 0,
    cpu_model: str = "CPU A",
    gpu: str = "NVIDIA T4",
    *,
    ray_id: str | None = None,
    **profile: Any,
) -> Node:
    """Return a node with these GPUs, or with so many that are called `gpu`.

    `ray_id` is the name, unless another is given; `profile` has other fields of the profile.
    """
    if isinstance(gpus, int):
        gpus = [
            build_gpu(index, gpu, f"GPU-{name}-{index}", memory_mib=16_000) for index in range(gpus)
        ]
    described = NodeProfile(name, cpu_model, cpus, 8_000, tuple(gpus), None, "Linux", "3.11")
    return Node(name if ray_id is None else ray_id, replace(described, **profile), cpus)


def build_cpu_use(model: str = "AMD EPYC", cpus: int = 2, usage: Usage = FULL_USAGE) -> HardwareUse:
    """Return `AMD EPYC, 2 CPUs`, as an arm uses it."""
    return HardwareUse(build_node("host", cpus, cpu_model=model).cpu_class, usage)


def build_gpu_use(
    name: str = "NVIDIA H200", model: str = "AMD EPYC", cpus: int = 2, usage: Usage = FULL_USAGE
) -> HardwareUse:
    """Return `NVIDIA H200 (AMD EPYC, 2 CPUs)`, as an arm uses it."""
    return HardwareUse(build_node("host", cpus, cpu_model=model).gpu_class(name), usage)


def build_timing_use(hardware: HardwareUse) -> HardwareUse:
    """Return this hardware, as an arm uses it that is only timed (`measure: timing`)."""
    return replace(hardware, usage=TIMING_USAGE)

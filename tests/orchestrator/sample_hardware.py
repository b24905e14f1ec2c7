"""Hardware as arms use it, named as a probe of real nodes names it."""

from dataclasses import replace

from orchestrator.core.arms import HardwareUse, Usage
from orchestrator.hardware import Node, NodeProfile

FULL = Usage()
TIMING = Usage(measure="timing")


def on_cpu(model: str = "AMD EPYC", cpus: int = 2, usage: Usage = FULL) -> HardwareUse:
    """Return `AMD EPYC, 2 CPUs`, as an arm uses it."""
    return HardwareUse(_node(model, cpus).cpu_class, usage)


def on_gpu(
    name: str = "NVIDIA H200", model: str = "AMD EPYC", cpus: int = 2, usage: Usage = FULL
) -> HardwareUse:
    """Return `NVIDIA H200 (AMD EPYC, 2 CPUs)`, as an arm uses it."""
    return HardwareUse(_node(model, cpus).gpu_class(name), usage)


def in_slices(hardware: HardwareUse) -> HardwareUse:
    return replace(hardware, usage=TIMING)


def _node(model: str, cpus: int) -> Node:
    profile = NodeProfile("host", model, cpus, 4096, (), None, "Linux", "3.12")
    return Node("", profile, cpus)

"""The facts of a node as names and texts: its share for trials, its processor, its GPUs, software.

A value that could not be read is left out of its text; a fact without any is left out whole.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orchestrator.core.text import counted
from orchestrator.hardware import Node, no_gpu_class_reason
from orchestrator.hardware.profile import Cpu, Gpu, Machine, NodeProfile
from orchestrator.report.document import visible
from workloads.resources import CgroupLimits

LABELS = "Ray labels"
_HIDDEN_LABELS = ("ray.io/node-id",)


class HardwareFact(NamedTuple):
    """A row of a node's table: `memory`, `252 GiB, 2 NUMA nodes (126 GiB each)`."""

    name: str
    text: str


def node_facts(node: Node, *, is_first: bool, on_gpu: bool) -> tuple[HardwareFact, ...]:
    """Return the facts of a node, as a class of hardware shows them.

    With `is_first` the node is described whole; in later classes that have it, only its share for
    trials and its GPUs are. `on_gpu` is True in a class of GPUs.
    """
    profile = node.profile
    facts = [HardwareFact("for trials", share_for_trials(node))]
    if is_first:
        facts += _machine_facts(profile)
    if on_gpu or not is_first or no_gpu_class_reason(node) is not None:
        facts += _gpu_facts(profile)
    if is_first:
        facts += [
            HardwareFact("software", _software(profile)),
            HardwareFact(LABELS, _labels(node)),
        ]
    return tuple(HardwareFact(name, shown) for name, text in facts if (shown := visible(text)))


def size(kib: float) -> str:
    """Return `48 KiB`, `1.5 MiB`, `23.5 GiB`, `140 GiB`."""
    value, unit = kib, "KiB"
    for larger in ("MiB", "GiB"):
        if value >= 1024:
            value, unit = value / 1024, larger
    return f"{round(value, 1):g} {unit}" if value < 100 else f"{value:.0f} {unit}"


def _listed(parts: Iterable[str | None]) -> str:
    """Join the parts that have a text with commas."""
    return ", ".join(part for part in parts if part)


def share_for_trials(node: Node) -> str:
    """Return what trials get of a node: `16 CPUs, 2 GPUs, 126 GiB`."""
    return _listed(
        (
            counted(node.cpus, "CPU"),
            counted(node.gpus, "GPU") if node.profile.gpus else None,
            size(node.profile.usable_memory_mib * 1024),
        )
    )


def _machine_facts(profile: NodeProfile) -> Iterator[HardwareFact]:
    cpu = profile.cpu
    yield HardwareFact("processor", _processor(cpu) or "unknown")
    yield HardwareFact("vectors", ", ".join(cpu.vectors))
    yield HardwareFact("caches", _caches(cpu))
    yield HardwareFact("memory", _memory(profile))
    yield HardwareFact("limits", _limits(profile))
    yield HardwareFact("machine", _machine(profile.machine))


def _processor(cpu: Cpu) -> str:
    return _listed(
        (
            counted(cpu.sockets, "socket") if cpu.sockets else None,
            counted(cpu.cores, "core") if cpu.cores else None,
            counted(cpu.logical_cpus, "thread") if cpu.logical_cpus else None,
            cpu.signature,
        )
    )


def _caches(cpu: Cpu) -> str:
    """Return `L1d 48 KiB × 16, L3 60 MiB`."""
    return ", ".join(
        f"{cache.level} {size(cache.kib)}" + (f" × {cache.count}" if cache.count > 1 else "")
        for cache in cpu.caches
    )


def _memory(profile: NodeProfile) -> str:
    """Return `504 GiB, 2 NUMA nodes (252 GiB each)`; the sizes in a row if they differ."""
    numa = profile.cpu.numa
    text = size(profile.memory_mib * 1024)
    if not numa:
        return text
    text += f", {counted(len(numa), 'NUMA node')}"
    sizes = [size(part.memory_mib * 1024) for part in numa if part.memory_mib]
    if len(numa) == 1 or not sizes:
        return text
    are_equal = len(set(sizes)) == 1
    return f"{text} ({f'{sizes[0]} each' if are_equal else ', '.join(sizes)})"


def _limits(profile: NodeProfile) -> str:
    """Return what the control group allows, and the CPUs if affinity allows fewer than that."""
    limits, logical_cpus = profile.limits, profile.cpu.logical_cpus
    group = _control_group(limits)
    is_whole = not logical_cpus or profile.cpus >= logical_cpus
    is_quota = limits.cpus is not None and profile.cpus == max(1, int(limits.cpus))
    if is_whole or is_quota:
        return group
    by_affinity = f"{profile.cpus} of {logical_cpus} CPUs by affinity"
    has_limits = limits.cpus is not None or limits.memory_mib is not None
    return f"{group}; {by_affinity}" if has_limits else by_affinity


def _control_group(limits: CgroupLimits) -> str:
    """Return `1.5 CPUs' time, 64 MiB memory (cgroup v2)`, or `none`."""
    cpus = f"{limits.cpus:g} CPUs' time" if limits.cpus is not None else None
    memory = f"{size(limits.memory_mib * 1024)} memory" if limits.memory_mib is not None else None
    version = f" (cgroup v{limits.version})" if limits.version is not None else ""
    return (_listed((cpus, memory)) or "none") + version


def _machine(machine: Machine) -> str:
    if machine.virtual is None:
        kind = "virtual or not: unknown"
    elif machine.virtual:
        kind = f"virtual ({machine.hypervisor or 'hypervisor unknown'})"
    else:
        kind = "no sign of a hypervisor"
    return _listed((kind, machine.product))


def _gpu_facts(profile: NodeProfile) -> Iterator[HardwareFact]:
    for gpu in profile.gpus:
        yield HardwareFact(f"GPU {gpu.index}", _gpu(gpu))
    runs = f", runs CUDA up to {profile.cuda}" if profile.cuda else ""
    yield HardwareFact(
        "driver", f"{profile.gpu_terms.vendor} {profile.driver}{runs}" if profile.driver else ""
    )


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.memory_mib is not None:
        parts.append(size(gpu.memory_mib * 1024))
    if gpu.compute_capability:
        parts.append(f"compute capability {gpu.compute_capability}")
    if gpu.power_limit_w is not None:
        parts.append(f"limit {gpu.power_limit_w:.0f} W")
    if gpu.max_sm_clock_mhz is not None:
        parts.append(f"up to SM {gpu.max_sm_clock_mhz:.0f} MHz")
    if gpu.max_memory_clock_mhz is not None:
        parts.append(f"memory up to {gpu.max_memory_clock_mhz:.0f} MHz")
    if gpu.ecc is not None:
        parts.append(f"ECC {_on_or_off(gpu.ecc)}")
    if gpu.mig is not None:
        parts.append(f"MIG {_on_or_off(gpu.mig)}")
    if gpu.pcie_generation is not None and gpu.pcie_lanes is not None:
        parts.append(f"PCIe {gpu.pcie_generation} ×{gpu.pcie_lanes}")
    if gpu.pcie_lanes and gpu.pcie_lanes_now and gpu.pcie_lanes_now < gpu.pcie_lanes:
        parts.append(f"now ×{gpu.pcie_lanes_now}")
    return _listed(parts)


def _on_or_off(value: bool) -> str:
    return "on" if value else "off"


def _software(profile: NodeProfile) -> str:
    packages = [f"{name} {version}" for name, version in profile.packages.items()]
    return ", ".join([*packages, f"Python {profile.python}", profile.system])


def _labels(node: Node) -> str:
    """Return the labels that Ray's users choose nodes by."""
    return ", ".join(
        f"{key}={value}" for key, value in sorted(node.labels.items()) if key not in _HIDDEN_LABELS
    )

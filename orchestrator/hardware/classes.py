"""Hardware classes: equal nodes, or the equal GPUs of equal nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.core.arms import HardwareRef
from orchestrator.core.names import selects
from orchestrator.hardware.profile import Gpu, Node, NodeProfile
from workloads.protocol import Device

_MEMORY_RATIO = 1.1
"""Nodes of one kind tell memory that differs by some per cent: kernels reserve a part of it."""


@dataclass(frozen=True, slots=True)
class HardwareClass:
    """Equal nodes, or the equal GPUs of equal nodes. A GPU's class includes its host's CPU.

    What must be equal stands in the name, so that a class is the same one in every sweep and
    whatever other nodes there are: the CPU's model, how many CPUs a process may use there (by
    affinity and cgroup, not how many the machine has), and the GPU's name. Everything else that
    may tell nodes apart (memory by more than 10 %, CPUs of one name but another family or other
    vector extensions, cores or threads, a GPU's power limit, ECC, versions) does not split the
    class, but is told: see `unlike`. Arms of a block run on one node, so that such differences
    widen a comparison's interval and do not bias it.
    """

    ref: HardwareRef
    nodes: tuple[Node, ...]

    @property
    def id(self) -> str:
        """The class id, which no wording and no table of names changes."""
        return self.ref.id

    @property
    def name(self) -> str:
        """The class's name, to be read."""
        return self.ref.name

    @property
    def device(self) -> Device:
        """What its trials run on."""
        return self.ref.device

    @property
    def slug(self) -> str:
        """The name in lower case, words joined by hyphens: stable, fit for a file name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def unlike(self) -> tuple[str, ...]:
        """How nodes of the class differ in what may change a time, a sentence for each trait."""
        return tuple(_unlike(self))

    def matches(self, selector: str) -> bool:
        """Whether a spec's `cpu`, `gpu`, class or GPU name or pattern (`*H200*`) means this."""
        return selects(selector, self.ref)


def classify(nodes: Iterable[Node]) -> tuple[HardwareClass, ...]:
    """Group nodes into hardware classes, CPU classes first, each sorted by name.

    A node's CPU counts as CPU hardware where no node without GPUs has the same CPU: a machine
    with a GPU that stands alone offers both, and a cluster keeps its GPU nodes for GPU arms.

    GPUs of which a trial might be given another one than its class says, or a part of one, form
    no class (`no_gpu_class_reason` says why).
    """
    members: dict[HardwareRef, list[Node]] = {}
    for node in nodes:
        members.setdefault(node.cpu_class, []).append(node)
        if _has_gpu_class(node):
            members.setdefault(node.gpu_class(node.gpu_names[0]), []).append(node)
    for ref, equal in members.items():
        if ref.device == "cpu":
            members[ref] = [node for node in equal if not _has_gpu_class(node)] or equal
    order = sorted(members, key=lambda ref: (ref.device, ref.name, ref.id))
    return tuple(HardwareClass(ref, tuple(members[ref])) for ref in order)


def no_gpu_class_reason(node: Node) -> str | None:
    """Why GPUs that the node has are not among its hardware classes; None where they are."""
    host, profile = node.profile.hostname, node.profile
    if profile.gpus and not node.gpus:
        return f"Ray has no GPU of {host} to give, which NVML shows there"
    if len(node.gpu_names) > 1:
        return (
            f"{host} has unlike GPUs ({', '.join(node.gpu_names)}), and a trial"
            " could be given any of them; a run on that machine alone (no --address) takes"
            " equal ones by CUDA_VISIBLE_DEVICES"
        )
    if cut := [str(gpu.index) for gpu in profile.gpus if gpu.mig]:
        return (
            f"GPU {', '.join(cut)} of {host} is in MIG mode, and a trial could be given a part of"
            f" it: end that with nvidia-smi -i {','.join(cut)} -mig 0, or leave it out by"
            " CUDA_VISIBLE_DEVICES where its Ray node is started"
        )
    if profile.gpu_faults and profile.gpus and (node.gpu_limit or 0) > len(profile.gpus):
        whole = ",".join(str(gpu.index) for gpu in profile.gpus)
        return (
            f"Ray may hand out a GPU of {host} that does not work ({profile.gpu_faults[0]}):"
            f" start its Ray node again with CUDA_VISIBLE_DEVICES={whole}"
        )
    return None


def _has_gpu_class(node: Node) -> bool:
    return node.gpus > 0 and no_gpu_class_reason(node) is None


def _unlike(hardware: HardwareClass) -> Iterator[str]:
    memory = [node.profile.usable_memory_mib for node in hardware.nodes]
    if max(memory) > _MEMORY_RATIO * min(memory):
        yield _told("memory", hardware.nodes, lambda p: f"{p.usable_memory_mib / 1024:.0f} GiB")
    for name, trait in {**_TRAITS, **(_GPU_TRAITS if hardware.device == "gpu" else {})}.items():
        if len({trait(node.profile) for node in hardware.nodes}) > 1:
            yield _told(name, hardware.nodes, trait)
    for name in sorted({name for node in hardware.nodes for name in node.profile.packages}):
        if len({node.profile.packages.get(name) for node in hardware.nodes}) > 1:
            yield _told(name, hardware.nodes, _version(name))


def _told(name: str, nodes: Iterable[Node], trait: Callable[[NodeProfile], str]) -> str:
    """`memory: 62 GiB on a, b; 251 GiB on c`."""
    hosts: dict[str, list[str]] = {}
    for node in nodes:
        hosts.setdefault(trait(node.profile), []).append(node.profile.hostname)
    parts = (f"{value} on {', '.join(names)}" for value, names in sorted(hosts.items()))
    return f"{name}: {'; '.join(parts)}"


def _version(package: str) -> Callable[[NodeProfile], str]:
    return lambda profile: profile.packages.get(package, "none")


def _threads(profile: NodeProfile) -> str:
    cpu = profile.cpu
    if not cpu.cores or not cpu.logical_cpus:
        return "untold"
    return f"{cpu.logical_cpus / cpu.cores:g}"


def _caches(profile: NodeProfile) -> str:
    return ", ".join(f"{each.level} {each.kib} KiB" for each in profile.cpu.caches) or "untold"


def _of_gpus(tell: Callable[[Gpu], object]) -> Callable[[NodeProfile], str]:
    def trait(profile: NodeProfile) -> str:
        told = (tell(gpu) for gpu in profile.gpus)
        return ", ".join(dict.fromkeys("untold" if each is None else str(each) for each in told))

    return trait


def _with_unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:g} {unit}"


_TRAITS: Mapping[str, Callable[[NodeProfile], str]] = {
    "CPU": lambda profile: profile.cpu.signature or "untold",
    "vector extensions": lambda profile: ", ".join(profile.cpu.vectors) or "none",
    "threads per core": _threads,
    "caches": _caches,
    "CPU limit": lambda profile: f"{profile.limits.cpus:g}" if profile.limits.cpus else "none",
    "virtual machine": lambda profile: {True: "yes", False: "no", None: "untold"}[
        profile.machine.virtual
    ],
    "Python": lambda profile: profile.python,
}
_GPU_TRAITS: Mapping[str, Callable[[NodeProfile], str]] = {
    "GPUs": lambda profile: str(len(profile.gpus)),
    "GPU memory": _of_gpus(lambda gpu: f"{gpu.memory_mib} MiB"),
    "power limit": _of_gpus(lambda gpu: _with_unit(gpu.power_limit_w, "W")),
    "highest SM clock": _of_gpus(lambda gpu: _with_unit(gpu.max_sm_clock_mhz, "MHz")),
    "ECC": _of_gpus(lambda gpu: {True: "on", False: "off", None: "untold"}[gpu.ecc]),
    "PCIe lanes": _of_gpus(lambda gpu: gpu.pcie_lanes_now),
    "driver": lambda profile: profile.driver or "untold",
}

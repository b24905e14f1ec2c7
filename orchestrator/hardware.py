"""What nodes are made of: probe one node, and group equal ones into hardware classes.

A probe reads the operating system and NVML; it imports no framework and never raises because
a GPU or its driver is missing.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pynvml

from orchestrator.selector import gpu_class, selects
from workloads.cpus import usable_cpus
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU, as NVML names it."""

    index: int
    name: str
    uuid: str
    memory_mib: int


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """One node. `cpus` are those this process may use: CPU affinity and the cgroup's quota."""

    hostname: str
    cpu_model: str
    cpus: int
    memory_mib: int
    gpus: tuple[Gpu, ...]
    driver: str | None
    system: str
    python: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster: Ray's id for it (empty before Ray is started) and its profile.

    `cpus` and `gpu_limit` are what the scheduler has to give there, which may be less than the
    node has; without a `gpu_limit` it gives every GPU of the profile. `labels` are Ray's own and
    its user's (`ray.io/accelerator-type`, …), empty before Ray is started.
    """

    id: str
    profile: NodeProfile
    cpus: int
    gpu_limit: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def gpus(self) -> int:
        """How many GPUs can be in use there at once."""
        found = len(self.profile.gpus)
        return found if self.gpu_limit is None else min(found, self.gpu_limit)

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The kinds of GPU that a trial may be given there."""
        return tuple(sorted({gpu.name for gpu in self.profile.gpus})) if self.gpus else ()

    @property
    def host(self) -> str:
        """The name of the node's CPU class."""
        return f"{self.profile.cpu_model}, {counted(self.profile.cpus, 'CPU')}"


@dataclass(frozen=True, slots=True)
class HardwareClass:
    """Equal nodes, or the equal GPUs of equal nodes. A GPU's class includes its host's CPU."""

    name: str
    device: Device
    nodes: tuple[Node, ...]

    @property
    def slug(self) -> str:
        """The name in lower case, words joined by hyphens: stable, fit for a file name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    def matches(self, selector: str) -> bool:
        """Whether a spec's `cpu`, `gpu`, class or GPU name or pattern (`*H200*`) means this."""
        return selects(selector, self.name)


def probe(*, every_gpu: bool = False) -> NodeProfile:
    """Profile the node that this process runs on.

    Args:
        every_gpu: the node's GPUs, not only those that `CUDA_VISIBLE_DEVICES` leaves to this
            process. For a task of Ray's, to which Ray itself shows no GPU.
    """
    gpus, driver = _probe_gpus()
    if not every_gpu:
        gpus = visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return NodeProfile(
        hostname=platform.node(),
        cpu_model=_cpu_model(),
        cpus=usable_cpus(),
        memory_mib=psutil.virtual_memory().total >> 20,
        gpus=gpus,
        driver=driver,
        system=platform.platform(),
        python=platform.python_version(),
    )


def visible_gpus(gpus: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    """Those of the node's GPUs that a `CUDA_VISIBLE_DEVICES` leaves; NVML does not read it.

    It lists indices, or beginnings of UUIDs, and ends at the first entry that is neither, as CUDA
    reads it (`-1` hides all). Parts of a GPU (`MIG-…`) are no GPU that could be told apart here.
    """
    if visible is None:
        return gpus
    left: list[Gpu] = []
    for entry in filter(None, (part.strip() for part in visible.split(","))):
        if entry.startswith("MIG-"):
            continue
        found = [
            gpu
            for gpu in gpus
            if entry == str(gpu.index)
            or (entry.startswith("GPU-") and gpu.uuid.lower().startswith(entry.lower()))
        ]
        if len(found) != 1:
            break
        left += [gpu for gpu in found if gpu not in left]
    return tuple(left)


def classify(nodes: Iterable[Node]) -> tuple[HardwareClass, ...]:
    """Group nodes into hardware classes, CPU classes first, each sorted by name.

    A node's CPU counts as CPU hardware where no node without GPUs has the same CPU: a machine
    with a GPU that stands alone offers both, and a cluster keeps its GPU nodes for GPU arms.

    A node's unlike GPUs form no class: Ray hands out either, so that a trial would measure the
    wrong one and call it the other (`why_no_gpu_class` says so).
    """
    cpus: dict[str, list[Node]] = {}
    gpus: dict[str, list[Node]] = {}
    for node in nodes:
        cpus.setdefault(node.host, []).append(node)
        if len(node.gpu_names) == 1:
            gpus.setdefault(gpu_class(*node.gpu_names, node.host), []).append(node)
    classes = [
        HardwareClass(name, "cpu", tuple(_without_gpu_class(members) or members))
        for name, members in sorted(cpus.items())
    ]
    classes += [HardwareClass(name, "gpu", tuple(found)) for name, found in sorted(gpus.items())]
    return tuple(classes)


def describe_hardware(classes: Iterable[HardwareClass]) -> str:
    """Hardware classes and their nodes, for a person."""
    lines: list[str] = []
    for each in classes:
        lines.append(f"{each.device}  {each.name}")
        for node in each.nodes:
            profile = node.profile
            gpus = f", {counted(node.gpus, 'GPU')}" if node.gpus else ""
            lines.append(
                f"     {profile.hostname}: {counted(node.cpus, 'CPU')}, "
                f"{profile.memory_mib} MiB{gpus}, {profile.system}, Python {profile.python}"
            )
            if each.device == "cpu" and (reason := why_no_gpu_class(node)):
                lines.append(f"       no GPU class: {reason}")
    return "\n".join(lines)


def hardware_json(classes: Iterable[HardwareClass]) -> dict[str, Any]:
    """Hardware classes and their nodes as one versioned object."""
    return {
        "format": "rnnsweep-hardware",
        "version": 1,
        "classes": [
            {
                "name": each.name,
                "slug": each.slug,
                "device": each.device,
                "nodes": [
                    {"id": node.id, **dataclasses.asdict(node.profile)} for node in each.nodes
                ],
            }
            for each in classes
        ],
    }


def why_no_gpu_class(node: Node) -> str | None:
    """Why GPUs that the node has are not among its hardware classes; None where they are."""
    if len(node.gpu_names) > 1:
        return (
            f"{node.profile.hostname} has unlike GPUs ({', '.join(node.gpu_names)}), and a trial"
            " could be given any of them; a run on that machine alone (no --address) takes"
            " equal ones by CUDA_VISIBLE_DEVICES"
        )
    if node.profile.gpus and not node.gpus:
        return f"Ray has no GPU of {node.profile.hostname} to give, which NVML shows there"
    return None


def _without_gpu_class(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if len(node.gpu_names) != 1]


def counted(number: int, noun: str) -> str:
    """`1 CPU`, `2 CPUs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model") and value.strip():
                return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _probe_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that NVML can name, and the driver's version; nothing where there is no NVML."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return (), None
    try:
        found = [_probe_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(gpu for gpu in found if gpu), str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return (), None
    finally:
        pynvml.nvmlShutdown()


def _probe_gpu(index: int) -> Gpu | None:
    """One GPU; None for one that fell off the bus or refuses to answer."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        return Gpu(
            index=index,
            name=str(pynvml.nvmlDeviceGetName(handle)),
            uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
            memory_mib=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20,
        )
    except pynvml.NVMLError:
        return None

"""What nodes are made of: probe one node, and group equal ones into hardware classes.

A probe reads the operating system and NVML; it imports no framework and never raises because
a GPU or its driver is missing.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import psutil
import pynvml

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

    `cpus` is what the scheduler has to give there, which may be less than the node has.
    """

    id: str
    profile: NodeProfile
    cpus: int


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
        """Whether a spec's `cpu`, `gpu`, class name or pattern (`*H200*`) means this class."""
        return selector == self.device or fnmatch(self.name.lower(), selector.lower())


def probe() -> NodeProfile:
    """Profile the node that this process runs on."""
    gpus, driver = _probe_gpus()
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


def usable_cpus(cgroup: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """CPUs that this process may keep busy: its affinity, cut by the cgroup's quota."""
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = cgroup.read_text().split()
        return max(1, min(available, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2 here, or "max": no quota
        return available


def classify(nodes: Iterable[Node]) -> tuple[HardwareClass, ...]:
    """Group nodes into hardware classes, CPU classes first, each sorted by name.

    A node's CPU counts as CPU hardware where no node without GPUs has the same CPU: a machine
    with a GPU that stands alone offers both, and a cluster keeps its GPU nodes for GPU arms.
    """
    cpus: dict[str, list[Node]] = {}
    gpus: dict[str, list[Node]] = {}
    for node in nodes:
        host = f"{node.profile.cpu_model}, {counted(node.profile.cpus, 'CPU')}"
        cpus.setdefault(host, []).append(node)
        for name in {gpu.name for gpu in node.profile.gpus}:
            gpus.setdefault(f"{name} ({host})", []).append(node)
    classes = [
        HardwareClass(name, "cpu", tuple(_without_gpus(members) or members))
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
            gpus = f", {counted(len(profile.gpus), 'GPU')}" if profile.gpus else ""
            lines.append(
                f"     {profile.hostname}: {counted(node.cpus, 'CPU')}, "
                f"{profile.memory_mib} MiB{gpus}, {profile.system}, Python {profile.python}"
            )
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


def _without_gpus(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if not node.profile.gpus]


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

"""The facts of a node as names and texts: its share for trials, memory, limits, GPUs, software.

A value that could not be read is left out of its text; a fact without any is left out whole.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orchestrator.core.text import counted
from orchestrator.hardware import Node, no_gpu_class_reason
from orchestrator.hardware.profile import Gpu, NodeProfile
from orchestrator.report.document import visible
from workloads.resources import CgroupLimits

LABELS = "Ray labels"
_HIDDEN_LABELS = ("ray.io/node-id",)


class HardwareFact(NamedTuple):
    """A row of a node's table: `memory`, `252 GiB`."""

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
        facts += [
            HardwareFact("memory", size(profile.memory_mib * 1024)),
            HardwareFact("limits", _control_group(profile.limits)),
        ]
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


def _control_group(limits: CgroupLimits) -> str:
    """Return `1.5 CPUs' time, 64 MiB memory (cgroup v2)`, or `none`."""
    cpus = f"{limits.cpus:g} CPUs' time" if limits.cpus is not None else None
    memory = f"{size(limits.memory_mib * 1024)} memory" if limits.memory_mib is not None else None
    version = f" (cgroup v{limits.version})" if limits.version is not None else ""
    return (_listed((cpus, memory)) or "none") + version


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
    return _listed(parts)


def _software(profile: NodeProfile) -> str:
    packages = [f"{name} {version}" for name, version in profile.packages.items()]
    return ", ".join([*packages, f"Python {profile.python}", profile.system])


def _labels(node: Node) -> str:
    """Return the labels that Ray's users choose nodes by."""
    return ", ".join(
        f"{key}={value}" for key, value in sorted(node.labels.items()) if key not in _HIDDEN_LABELS
    )

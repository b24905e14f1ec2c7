"""Hardware classes: equal nodes, or the equal GPUs of equal nodes."""

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.arms import HardwareRef
from orchestrator.core.selectors import selects
from orchestrator.hardware.profile import Node
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class HardwareClass:
    """Equal nodes, or the equal GPUs of equal nodes. A GPU's class includes its host's CPU.

    A class is made from the CPU's model, the number of CPUs that a process may use there (by
    affinity and cgroup), and the GPU's name: it is the same in every sweep. Other differences
    (memory, vector extensions, a GPU's power limit, ECC, versions, …) are listed with the hardware.
    Arms of a block run on one node, so they widen a comparison's interval and do not bias it.
    """

    ref: HardwareRef
    nodes: tuple[Node, ...]

    @property
    def id(self) -> str:
        """The id, equal in every sweep."""
        return self.ref.id

    @property
    def name(self) -> str:
        """The name to be read: `NVIDIA H200 (AMD EPYC, 16 CPUs)`."""
        return self.ref.name

    @property
    def device(self) -> Device:
        """The device of its trials: `cpu` or `gpu`."""
        return self.ref.device

    @property
    def compute_capability(self) -> float | None:
        """The lowest compute capability of its GPUs; None where none is reported."""
        gpus = [gpu for node in self.nodes for gpu in node.profile.gpus if self.device == "gpu"]
        reported = [float(gpu.compute_capability) for gpu in gpus if gpu.compute_capability]
        return min(reported, default=None)

    def matches(self, selector: str) -> bool:
        """Return whether a spec's selector matches (`cpu`, a class or GPU name, `*H200*`)."""
        return selects(selector, self.ref)


def classify(nodes: Iterable[Node]) -> tuple[HardwareClass, ...]:
    """Group nodes into hardware classes, CPU classes first, each sorted by name.

    A node's CPU counts as CPU hardware where no node without GPUs has the same CPU: a machine with
    a GPU that stands alone offers both. GPUs form no class where a trial could get a GPU of another
    class, or a part of one (`no_gpu_class_reason`).
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
    """Return why GPUs that the node has are not among its hardware classes; None where they are."""
    host, profile, terms = node.profile.hostname, node.profile, node.profile.gpu_terms
    if profile.gpus and not node.gpus:
        return f"{terms.vendor}'s driver shows a GPU on {host}, but its Ray node has none"
    if len(node.gpu_names) > 1:
        return (
            f"{host} has different GPUs ({', '.join(node.gpu_names)}), and Ray could give a trial"
            " any of them. Run on that machine without an address, and choose equal GPUs with"
            f" {terms.visibility_variable}"
        )
    unfit = [gpu for gpu in profile.gpus if gpu.no_class_reason is not None]
    if unfit:
        return "; ".join(f"GPU {gpu.index} of {host} {gpu.no_class_reason}" for gpu in unfit)
    if profile.gpu_faults and profile.gpus and (node.gpu_limit or 0) > len(profile.gpus):
        whole = ",".join(str(gpu.index) for gpu in profile.gpus)
        return (
            f"Ray may hand out a GPU of {host} that does not work ({profile.gpu_faults[0]}):"
            f" start its Ray node again with {terms.visibility_variable}={whole}"
        )
    return None


def _has_gpu_class(node: Node) -> bool:
    return node.gpus > 0 and no_gpu_class_reason(node) is None

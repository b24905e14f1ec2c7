"""The hardware of a node as plain data. A value that could not be read is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from orchestrator.core.arms import HardwareRef
from workloads.resources import CgroupLimits


@dataclass(frozen=True, slots=True)
class GpuReaderInfo:
    """The names of what read a node's GPUs, for messages and for the environment of processes.

    `id` is a lower-case word that begins the methods of energy (`nvml_counter`). `library` is what
    was asked (`NVML`), `vendor` whose GPUs it finds (`NVIDIA`). `visibility_variable` is the
    environment variable by which frameworks and Ray select GPUs. `how_to_reset` is what a person
    does with a GPU that does not answer.
    """

    id: str
    library: str
    vendor: str
    visibility_variable: str
    how_to_reset: str


UNKNOWN_READER = GpuReaderInfo(
    id="unknown",
    library="the library that reads GPUs",
    vendor="",
    visibility_variable="the variable that selects GPUs",
    how_to_reset="a reboot",
)
"""Instead of the reader of a node that no reader has probed, such as one of a fleet."""


@dataclass(frozen=True, slots=True)
class NoGpus:
    """Why no library could be asked for GPUs. Having none is no problem; lacking a driver is."""

    reason: str
    is_problem: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, as its reader describes it; None for what that does not report.

    `index` is the GPU's number on the node, `uuid` is its own for ever. `compute_capability` is the
    version of CUDA's features (`9.0`), which the rules of number formats need. `no_class_reason`
    is why a trial cannot have it as it is, and what to do: the part of a sentence after
    `GPU 0 of host`.
    """

    index: int
    name: str
    uuid: str
    memory_mib: int | None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    no_class_reason: str | None = None


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """One node. `cpus` are those this process may use: CPU affinity and the cgroup's quota.

    `cpu_model` comes from `lscpu` where the kernel gives none; `cpu_part` has implementer and part
    of a CPU that the kernel does not name. `memory_mib` is the machine's; the cgroup's `limits` may
    allow less (`usable_memory_mib`). `gpus` are those that answer; `gpu_faults` has a sentence for
    each other one, or for the whole driver. `gpu_reader` is what read them, `driver` its version,
    and `cuda` the newest CUDA that it can run. `no_gpus` is why no reader could be opened.
    `packages` are versions of what times depend on.
    """

    hostname: str
    cpu_model: str
    cpus: int
    memory_mib: int
    gpus: tuple[Gpu, ...]
    driver: str | None
    system: str
    python: str
    cuda: str | None = None
    limits: CgroupLimits = field(default_factory=CgroupLimits)
    gpu_faults: tuple[str, ...] = ()
    gpu_reader: GpuReaderInfo | None = None
    no_gpus: NoGpus | None = None
    cpu_part: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def gpu_terms(self) -> GpuReaderInfo:
        """The names of its GPUs' reader, for messages; general words where no reader is known."""
        return self.gpu_reader or UNKNOWN_READER

    @property
    def usable_memory_mib(self) -> int:
        """The machine's memory, or what its cgroup allows of it."""
        allowed = self.limits.memory_mib
        return self.memory_mib if allowed is None else min(self.memory_mib, allowed)


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
        """The number of GPUs that can be in use there at once."""
        present = len(self.profile.gpus)
        return present if self.gpu_limit is None else min(present, self.gpu_limit)

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The kinds of GPU that a trial may be given there."""
        return tuple(sorted({gpu.name for gpu in self.profile.gpus})) if self.gpus else ()

    @property
    def cpu_class(self) -> HardwareRef:
        """The node's CPU class."""
        profile = self.profile
        return HardwareRef.of_cpu(profile.cpu_model, profile.cpus, profile.cpu_part)

    def gpu_class(self, gpu: str) -> HardwareRef:
        """Return the class of GPUs of this name in nodes with this CPU."""
        return self.cpu_class.of_gpu(gpu)

    @property
    def main_class(self) -> HardwareRef:
        """The class of its GPUs, or of its CPU if it has none."""
        return self.gpu_class(self.gpu_names[0]) if self.gpus else self.cpu_class

    @classmethod
    def of_class(cls, ref: HardwareRef, gpus: int = 1) -> Self:
        """Return a node of a class that only trials have recorded, with this number of GPUs."""
        devices = tuple(Gpu(i, ref.gpu, str(i), None) for i in range(gpus)) if ref.gpu else ()
        profile = NodeProfile(
            "", ref.cpu_model, ref.cpus, 0, devices, None, "", "", cpu_part=ref.cpu_part
        )
        return cls("", profile, ref.cpus)

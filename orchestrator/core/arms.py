"""Arms: an implementation on a hardware class, used in one way, perhaps with a variant's settings.

An arm is identified by its fields alone. Names of hardware are made to be read: they are neither
compared nor hashed. `HardwareRef` alone reads facts back from its two texts, because the stores of
a sweep have no more of a class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from orchestrator.core.criteria import MeasureMode
from orchestrator.core.text import counted
from workloads.protocol import Device

VariantIdentity: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
ArmIdentity: TypeAlias = tuple[
    str,
    str,
    Device,
    MeasureMode,
    int,
    int,
    tuple[tuple[str, float], ...],
    *tuple[VariantIdentity, ...],
]


@dataclass(frozen=True, slots=True)
class Usage:
    """How a trial uses its hardware, if not in the default way.

    Attributes:
        cpus: The CPUs that a trial on a GPU reserves, instead of its share of the node's.
        threads: The CPUs that the trainer may keep busy.
        settings: The arm's own amounts of work, such as `epochs`.
        measure: `full` for whole trainings, `timing` for slices.
    """

    cpus: int | None = None
    threads: int | None = None
    settings: Mapping[str, int | float] = field(default_factory=dict, hash=False)
    measure: MeasureMode = "full"

    def __str__(self) -> str:
        counts = ((self.cpus, "CPU"), (self.threads, "thread"))
        words = [counted(number, noun) for number, noun in counts if number is not None]
        words += ["timing"] if self.measure == "timing" else []
        return ", ".join([*words, *filter(None, [self.work])])

    @property
    def work(self) -> str:
        """The arm's own amount of work (`epochs 1`); empty if it does the same as the sweep."""
        return ", ".join(f"{name} {json.dumps(self.settings[name])}" for name in self.settings)


@dataclass(frozen=True, slots=True)
class HardwareRef:
    """A hardware class.

    Attributes:
        id: An identifier made from what the node reports.
        device: `cpu` or `gpu`.
        name: The name in reports, such as `NVIDIA H200 (AMD EPYC, 16 CPUs)`.
        gpu: The name of the GPU alone; None for a CPU.
    """

    # `of_cpu` and `of_gpu` write both texts; `host_id` and the properties below it read them.
    id: str
    device: Device
    name: str = field(compare=False)
    gpu: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of_cpu(cls, model: str, cpus: int, part: str | None = None) -> HardwareRef:
        """Return the class of nodes with this number of CPUs of a model.

        `part` distinguishes CPUs whose models share a name.
        """
        return cls(f"{part or model}/{cpus}", "cpu", f"{model}, {counted(cpus, 'CPU')}")

    def of_gpu(self, gpu: str) -> HardwareRef:
        """Return the class of GPUs of this name in nodes of this CPU class."""
        return HardwareRef(f"{gpu}/{self.id}", "gpu", f"{gpu} ({self.name})", gpu)

    @property
    def host_id(self) -> str:
        """The id of the CPU class of its nodes."""
        return self.id if self.gpu is None else self.id.removeprefix(f"{self.gpu}/")

    @property
    def cpu_part(self) -> str | None:
        """What distinguishes CPUs whose models share a name; None if the model is enough."""
        part, _, _ = self.host_id.rpartition("/")
        return part if part != self.cpu_model else None

    @property
    def cpu_model(self) -> str:
        """The model of its nodes' CPUs."""
        host = self.name if self.gpu is None else self.name[len(f"{self.gpu} (") : -len(")")]
        return host.removesuffix(f", {counted(self.cpus, 'CPU')}")

    @property
    def cpus(self) -> int:
        """The number of CPUs of a node."""
        return int(self.host_id.rpartition("/")[2])

    @property
    def in_sentence(self) -> str:
        """The name without a comma, which would end a clause: `AMD EPYC (16 CPUs)`."""
        model, comma, cpus = self.name.rpartition(", ")
        return self.name if self.gpu or not comma else f"{model} ({cpus})"


@dataclass(frozen=True, slots=True)
class HardwareUse:
    """A hardware class as an arm uses it."""

    hardware_class: HardwareRef
    usage: Usage = field(default_factory=Usage)

    def __str__(self) -> str:
        return self.written_with(self.hardware_class.name)

    def written_with(self, class_name: str) -> str:
        """Write the use with a name for its class: `AMD EPYC, 16 CPUs [4 threads, epochs 1]`."""
        usage = str(self.usage)
        return f"{class_name} [{usage}]" if usage else class_name


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the workload: an arm's own settings, and their name."""

    name: str
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return self.name

    @property
    def identity(self) -> VariantIdentity:
        """The name, and each setting with its value as JSON, which can be ordered."""
        return self.name, tuple((n, json.dumps(v)) for n, v in sorted(self.settings.items()))


@dataclass(frozen=True, slots=True)
class Arm:
    """An implementation on a hardware class, perhaps with a variant's settings."""

    implementation: str
    hardware: HardwareUse
    variant: Variant | None = None

    def __str__(self) -> str:
        return f"{self.short_name} on {self.hardware}"

    def __lt__(self, other: Arm) -> bool:
        return self.identity < other.identity

    @property
    def hardware_class(self) -> HardwareRef:
        """The hardware class, without how the arm uses it."""
        return self.hardware.hardware_class

    @property
    def usage(self) -> Usage:
        """How the arm uses its hardware."""
        return self.hardware.usage

    @property
    def device(self) -> Device:
        """The device that computes: `cpu` or `gpu`."""
        return self.hardware.hardware_class.device

    @property
    def measure(self) -> MeasureMode:
        """Whether its trials are whole trainings or timed only."""
        return self.hardware.usage.measure

    @property
    def work(self) -> str:
        """Its own amount of work; results are compared only between arms of equal work."""
        return self.hardware.usage.work

    @property
    def short_name(self) -> str:
        """The name without the hardware: `torch/fused`, or with its variant `gru: torch/fused`."""
        return f"{self.variant}: {self.implementation}" if self.variant else self.implementation

    @property
    def variant_name(self) -> str | None:
        """The name of its variant; None in a sweep without variants."""
        return self.variant.name if self.variant else None

    @property
    def settings(self) -> Mapping[str, bool | int | float | str]:
        """The arm's own settings: the settings of its variant, and its own amount of work."""
        return {**(self.variant.settings if self.variant else {}), **self.usage.settings}

    @property
    def identity(self) -> ArmIdentity:
        """The facts that arms are ordered by and trial keys are made from."""
        hardware, usage = self.hardware.hardware_class, self.hardware.usage
        settings = sorted((name, float(number)) for name, number in usage.settings.items())
        return (
            self.implementation,
            hardware.id,
            hardware.device,
            usage.measure,
            usage.cpus or 0,
            usage.threads or 0,
            tuple(settings),
            *((self.variant.identity,) if self.variant else ()),
        )


@dataclass(frozen=True, slots=True)
class RequestedArm:
    """An arm as a spec names it; its hardware class may not exist."""

    implementation: str
    hardware: str
    variant: str | None = None

    def __str__(self) -> str:
        return f"{self.short_name} on {self.hardware}"

    @property
    def short_name(self) -> str:
        """The name without the hardware."""
        return f"{self.variant}: {self.implementation}" if self.variant else self.implementation

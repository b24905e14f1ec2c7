"""A node's GPUs, asked through NVML. Each call may fail by itself; a probe never raises."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.text import counted
from orchestrator.hardware.nvml import Nvml, NvmlDevice, NvmlError
from orchestrator.hardware.profile import Gpu
from orchestrator.hardware.sysfs import number_of

_NVIDIA = 0x10DE
_DISPLAY = 0x03
"""PCI's class of VGA and 3D controllers, its first byte."""


@dataclass(frozen=True, slots=True)
class GpuProbe:
    """What NVML told; fields are as in `NodeProfile`."""

    gpus: tuple[Gpu, ...] = ()
    faults: tuple[str, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    no_nvml: str | None = None


def probe_gpus(root: Path) -> GpuProbe:
    """The GPUs that NVML can name, and what it says of those that it cannot.

    Args:
        root: the folder that holds `sys`, where GPUs without a driver are seen.
    """
    try:
        with Nvml() as nvml:
            return _ask(nvml)
    except NvmlError as error:
        if error.no_library:
            return GpuProbe(no_nvml=_without_driver(root))
        return GpuProbe(faults=(f"NVML does not answer: {error.said}",))


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


def _ask(nvml: Nvml) -> GpuProbe:
    driver, cuda = nvml.driver(), nvml.cuda()
    gpus: list[Gpu] = []
    faults: list[str] = []
    try:
        count = nvml.count()
    except NvmlError as error:
        return GpuProbe((), (f"NVML does not count its GPUs: {error.said}",), driver, cuda)
    for index in range(count):
        found = _gpu(nvml, index)
        if isinstance(found, Gpu):
            gpus.append(found)
        else:
            faults.append(f"GPU {index} does not answer: {found}")
    return GpuProbe(tuple(gpus), tuple(faults), driver, cuda)


def _gpu(nvml: Nvml, index: int) -> Gpu | str:
    """One GPU, or why it is none to work with: it fell off the bus, or does not say what it is."""
    try:
        device = nvml.device(index)
    except NvmlError as error:
        return error.said
    name, uuid = device.name(), device.uuid()
    if name is None or uuid is None:
        return _refusal(device)
    memory, capability, link = device.memory(), device.compute_capability(), device.pcie_link()
    gpu = Gpu(
        index,
        name,
        uuid,
        memory_mib=None if memory is None else int(memory.total_mib),
        compute_capability=None if capability is None else ".".join(map(str, capability)),
        power_limit_w=device.power_limit_w(),
        max_sm_clock_mhz=device.max_sm_clock_mhz(),
        max_memory_clock_mhz=device.max_memory_clock_mhz(),
        ecc=device.ecc(),
        mig=device.mig(),
        pcie_generation=link.max_generation,
        pcie_lanes=link.max_lanes,
        pcie_lanes_now=link.lanes,
    )
    return _refusal(device) if device.lost else gpu


def _refusal(device: NvmlDevice) -> str:
    """What it said when it was lost, or else first."""
    refusals = list(device.untold.values())
    return next((each.said for each in refusals if each.lost), refusals[0].said)


def _without_driver(root: Path) -> str:
    """Why there is no NVML; GPUs on the bus show that there should be."""
    on_bus = 0
    with contextlib.suppress(OSError):
        for device in (root / "sys/bus/pci/devices").iterdir():
            kind = number_of(device / "class") or 0
            on_bus += number_of(device / "vendor") == _NVIDIA and kind >> 16 == _DISPLAY
    if not on_bus:
        return "no NVIDIA driver is installed (NVML's library is not there)"
    verb = "is" if on_bus == 1 else "are"
    return (
        f"{counted(on_bus, 'NVIDIA GPU')} {verb} on the PCI bus, but NVML's library is not there:"
        " install the driver, or start this container with its GPUs (--gpus all)"
    )

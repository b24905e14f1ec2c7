"""A node's GPUs, read through NVML. Single calls may fail; a probe never raises."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.text import counted
from orchestrator.hardware.cpu import text_of
from orchestrator.hardware.nvml import Nvml, NvmlDevice, NvmlError
from orchestrator.hardware.profile import Gpu

_NVIDIA = "0x10de"
_DISPLAY = "0x03"
"""PCI's class of VGA and 3D controllers, its first byte."""


@dataclass(frozen=True, slots=True)
class GpuProbe:
    """The answers of NVML. Fields are as in `NodeProfile`."""

    gpus: tuple[Gpu, ...] = ()
    faults: tuple[str, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    no_nvml: str | None = None


def probe_gpus(root: Path) -> GpuProbe:
    """Return the GPUs that NVML can name, and a reason for every other one.

    Args:
        root: the folder that holds `sys`, where GPUs without a driver are seen.
    """
    try:
        with contextlib.closing(Nvml()) as nvml:
            return _ask(nvml)
    except NvmlError as error:
        if error.no_library:
            return GpuProbe(no_nvml=_without_driver(root))
        return GpuProbe(faults=(f"NVML does not answer: {error.reason}",))


def visible_gpus(gpus: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    """Return the node's GPUs that `CUDA_VISIBLE_DEVICES` leaves visible. NVML ignores it.

    The variable lists indices, or beginnings of UUIDs. As in CUDA, the first other entry ends the
    list (`-1` hides all). Parts of a GPU (`MIG-…`) are skipped.
    """
    if visible is None:
        return gpus
    chosen: list[Gpu] = []
    for entry in filter(None, (part.strip() for part in visible.split(","))):
        if entry.startswith("MIG-"):
            continue
        matching = [
            gpu
            for gpu in gpus
            if entry == str(gpu.index)
            or (entry.startswith("GPU-") and gpu.uuid.lower().startswith(entry.lower()))
        ]
        if len(matching) != 1:
            break
        chosen += [gpu for gpu in matching if gpu not in chosen]
    return tuple(chosen)


def _ask(nvml: Nvml) -> GpuProbe:
    driver, cuda = nvml.driver(), nvml.cuda()
    gpus: list[Gpu] = []
    faults: list[str] = []
    try:
        count = nvml.count()
    except NvmlError as error:
        return GpuProbe((), (f"NVML does not count its GPUs: {error.reason}",), driver, cuda)
    for index in range(count):
        gpu = _gpu(nvml, index)
        if isinstance(gpu, Gpu):
            gpus.append(gpu)
        else:
            faults.append(f"GPU {index} does not answer: {gpu}")
    return GpuProbe(tuple(gpus), tuple(faults), driver, cuda)


def _gpu(nvml: Nvml, index: int) -> Gpu | str:
    """Return one GPU, or the reason why it is unusable: it fell off the bus, or has no name."""
    try:
        device = nvml.device(index)
    except NvmlError as error:
        return error.reason
    name, uuid = device.name(), device.uuid()
    if name is None or uuid is None:
        return _refusal(device)
    memory = device.memory()
    generation, lanes = device.number("pcie_generation"), device.number("pcie_lanes")
    lanes_now = device.number("pcie_lanes_now")
    gpu = Gpu(
        index,
        name,
        uuid,
        memory_mib=None if memory is None else int(memory.total_mib),
        compute_capability=device.compute_capability(),
        power_limit_w=device.number("power_limit_w"),
        max_sm_clock_mhz=device.number("max_sm_clock_mhz"),
        max_memory_clock_mhz=device.number("max_memory_clock_mhz"),
        ecc=device.mode("Ecc"),
        mig=device.mode("Mig"),
        pcie_generation=None if generation is None else int(generation),
        pcie_lanes=None if lanes is None else int(lanes),
        pcie_lanes_now=None if lanes_now is None else int(lanes_now),
    )
    return _refusal(device) if device.lost else gpu


def _refusal(device: NvmlDevice) -> str:
    """Return the error that shows that the GPU is lost, or else the first error."""
    refusals = list(device.errors.values())
    return next((error.reason for error in refusals if error.lost), refusals[0].reason)


def _without_driver(root: Path) -> str:
    """Return why there is no NVML. GPUs on the bus show that there should be one."""
    on_bus = 0
    for device in (root / "sys/bus/pci/devices").glob("*"):
        is_display = (text_of(device / "class") or "").startswith(_DISPLAY)
        on_bus += is_display and text_of(device / "vendor") == _NVIDIA
    if not on_bus:
        return "no NVIDIA driver is installed (NVML's library is not there)"
    verb = "is" if on_bus == 1 else "are"
    return (
        f"{counted(on_bus, 'NVIDIA GPU')} {verb} on the PCI bus, but NVML's library is not there:"
        " install the driver, or start this container with its GPUs (--gpus all)"
    )

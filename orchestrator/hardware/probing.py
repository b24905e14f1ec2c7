"""Probe this process's node, without a framework; a missing GPU or file never raises."""

import contextlib
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from orchestrator.core.text import counted
from orchestrator.hardware import cpu
from orchestrator.hardware.nvml import Nvml, NvmlDevice, NvmlError
from orchestrator.hardware.profile import Gpu, NodeProfile
from workloads.resources import read_limits, usable_cpus

PACKAGES = (
    *("keras", "tensorflow", "jax", "jaxlib", "torch", "numpy"),
    *("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13"),
)
"""What a time may depend on and comes as a package; our own code comes with the driver."""

NO_DRIVER = "no NVIDIA driver is installed (NVML's library is not there)"


def probe(*, every_gpu: bool = False, root: Path = Path("/")) -> NodeProfile:
    """Return the profile of this process's node; `root` holds its `proc` and `sys`."""
    # With `every_gpu`, `CUDA_VISIBLE_DEVICES` does not count: Ray shows a task of its own no GPU.
    fields = cpu.read_fields(root)
    profile = with_gpus(
        NodeProfile(
            hostname=platform.node(),
            cpu_model=cpu.cpu_model(fields) or platform.processor() or platform.machine(),
            cpus=usable_cpus(root),
            memory_mib=psutil.virtual_memory().total >> 20,
            gpus=(),
            driver=None,
            system=platform.platform(),
            python=platform.python_version(),
            cpu=cpu.read_cpu(root, fields),
            limits=read_limits(root),
            machine=cpu.read_machine(root, fields),
            cpu_part=cpu.cpu_part(fields),
            packages=_installed(),
        ),
        root,
    )
    if every_gpu:
        return profile
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return replace(profile, gpus=visible_gpus(profile.gpus, visible))


def with_gpus(profile: NodeProfile, root: Path) -> NodeProfile:
    """Return a profile with the GPUs that NVML can name, and a reason for every other one."""
    try:
        with contextlib.closing(Nvml()) as nvml:
            profile = replace(profile, driver=nvml.driver(), cuda=nvml.cuda())
            answers = [(index, _gpu(nvml, index)) for index in range(nvml.count())]
    except NvmlError as error:
        if error.no_library:
            return replace(profile, no_nvml=_without_driver(root))
        return replace(profile, gpu_faults=(f"NVML does not answer: {error.reason}",))
    return replace(
        profile,
        gpus=tuple(gpu for _, gpu in answers if isinstance(gpu, Gpu)),
        gpu_faults=tuple(
            f"GPU {index} does not answer: {answer}"
            for index, answer in answers
            if isinstance(answer, str)
        ),
    )


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


def _gpu(nvml: Nvml, index: int) -> Gpu | str:
    """Return one GPU, or the reason why it is unusable: it fell off the bus, or has no name."""
    try:
        device = nvml.device(index)
    except NvmlError as error:
        return error.reason
    name, uuid, memory = device.name(), device.uuid(), device.memory()
    if name is None or uuid is None:
        return _refusal(device)
    gpu = Gpu(
        index,
        name,
        uuid,
        memory_mib=int(memory.total_mib) if memory else None,
        compute_capability=device.compute_capability(),
        power_limit_w=device.number("power_limit_w"),
        max_sm_clock_mhz=device.number("max_sm_clock_mhz"),
        max_memory_clock_mhz=device.number("max_memory_clock_mhz"),
        ecc=device.mode("Ecc"),
        mig=device.mode("Mig"),
        pcie_generation=device.count("pcie_generation"),
        pcie_lanes=device.count("pcie_lanes"),
        pcie_lanes_now=device.count("pcie_lanes_now"),
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
        is_display = (cpu.text_of(device / "class") or "").startswith("0x03")  # of VGA, 3D, …
        on_bus += is_display and cpu.text_of(device / "vendor") == "0x10de"  # NVIDIA
    if not on_bus:
        return NO_DRIVER
    verb = "is" if on_bus == 1 else "are"
    return (
        f"{counted(on_bus, 'NVIDIA GPU')} {verb} on the PCI bus, but NVML's library is not there:"
        " install the driver, or start this container with its GPUs (--gpus all)"
    )


def _installed() -> Mapping[str, str]:
    """Return the versions of the installed packages, without importing them."""
    versions: dict[str, str] = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            if version := importlib.metadata.version(name):  # a damaged installation has none
                versions[name] = version
    return versions

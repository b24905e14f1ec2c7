"""Probe this process's node, without a framework; a missing GPU or file never raises."""

import contextlib
import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from orchestrator.hardware import cpu
from orchestrator.hardware.gpu_readers import (
    READERS,
    GpuDriver,
    GpuError,
    GpuLibraryMissing,
    GpuReader,
    OpenGpuReader,
    reader_with_id,
)
from orchestrator.hardware.profile import Gpu, GpuReaderInfo, NodeProfile, NoGpus
from workloads.backends.backend import CUDA_PACKAGES
from workloads.backends.registry import backends
from workloads.resources import read_limits, usable_cpus

_PACKAGES = ("keras", "numpy", *CUDA_PACKAGES, "ray")
"""What a time may depend on, besides a backend's own packages; and Ray, whose versions must agree.

Our own code comes with the driver."""


def probe(*, every_gpu: bool = False, root: Path = Path("/")) -> NodeProfile:
    """Return the profile of this process's node; `root` holds its `proc` and `sys`."""
    # With `every_gpu`, GPUs that the environment hides count: Ray shows a task of its own none.
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
            limits=read_limits(root),
            cpu_part=cpu.cpu_part(fields),
            packages=_installed(),
        ),
        root,
    )
    reader = reader_with_id(profile.gpu_terms.id)
    if every_gpu or reader is None:
        return profile
    by_index = {gpu.index: gpu for gpu in profile.gpus}
    uuids = {gpu.index: gpu.uuid for gpu in profile.gpus}
    visible = reader.visible_indices(uuids, os.environ)
    return replace(profile, gpus=tuple(by_index[index] for index in visible))


def with_gpus(profile: NodeProfile, root: Path) -> NodeProfile:
    """Return a profile with the node's GPUs, and a reason for every one that does not answer.

    All GPUs of a node are of one reader, the first that shows any: Ray, too, gives GPUs of one
    vendor to a node. The readers after it are not asked.
    """
    answers: list[_Answer] = []
    for reader in READERS:
        answers.append(_ask(reader, root))
        if answers[-1].gpus:
            break
    profile = replace(
        profile, gpu_faults=tuple(fault for answer in answers for fault in answer.faults)
    )
    answered = [answer for answer in answers if answer.absence is None]
    if not answered:
        absences = [answer.absence for answer in answers if answer.absence is not None]
        reason = "; ".join(absence.reason for absence in absences)
        return replace(profile, no_gpus=NoGpus(reason, any(a.is_problem for a in absences)))
    answer = answers[-1] if answers[-1].gpus else answered[0]
    return replace(
        profile,
        gpus=answer.gpus,
        gpu_reader=answer.info,
        driver=answer.driver.version,
        cuda=answer.driver.cuda,
    )


def only_visible_environment(profile: NodeProfile, uuids: Sequence[str]) -> Mapping[str, str]:
    """Return the environment with which frameworks see these GPUs of a node only (none: no GPU)."""
    reader = reader_with_id(profile.gpu_terms.id)
    return {} if reader is None else reader.showing_only(uuids)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one reader reports of a node; `absence` is why it could not be opened at all."""

    info: GpuReaderInfo
    driver: GpuDriver = field(default_factory=GpuDriver)
    gpus: tuple[Gpu, ...] = ()
    faults: tuple[str, ...] = ()
    absence: NoGpus | None = None


def _ask(reader: GpuReader, root: Path) -> _Answer:
    """Ask a reader for everything that a profile has of GPUs."""
    info = reader.info
    try:
        with contextlib.closing(reader.open()) as library:
            return _read_gpus(info, library)
    except GpuLibraryMissing:
        return _Answer(info, absence=reader.absence(root))
    except GpuError as error:
        return _Answer(info, faults=(f"{info.library} does not answer: {error.reason}",))


def _read_gpus(info: GpuReaderInfo, library: OpenGpuReader) -> _Answer:
    """Return the GPUs that answer, and a fault for each that is lost or has no name."""
    gpus, faults = list[Gpu](), list[str]()
    for index, device in enumerate(library.devices()):
        try:
            if isinstance(device, GpuError):
                raise device
            gpus.append(device.facts())
        except GpuError as error:
            faults.append(f"GPU {index} does not answer: {error.reason}")
    return _Answer(info, library.driver(), tuple(gpus), tuple(faults))


def _installed() -> Mapping[str, str]:
    """Return the versions of the installed packages, without importing them."""
    versions: dict[str, str] = {}
    of_backends = (
        name for backend in backends().values() for name in backend.recorded_distributions
    )
    for name in dict.fromkeys((*_PACKAGES, *of_backends)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            if version := importlib.metadata.version(name):  # a damaged installation has none
                versions[name] = version
    return versions

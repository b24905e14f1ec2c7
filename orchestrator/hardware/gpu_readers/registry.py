"""The readers of GPUs that rnnsweep asks: built-in ones first, then readers of other packages."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from orchestrator.hardware.gpu_readers.nvml import NvmlReader
from orchestrator.hardware.gpu_readers.reader import GpuReader

BUILT_IN_READERS: tuple[type[GpuReader], ...] = (NvmlReader,)

READER_ENTRY_POINTS = "rnnsweep.gpu_readers"
"""The entry-point group in which a package names its subclass of `GpuReader`."""


@dataclass(frozen=True, slots=True)
class RegisteredReaders:
    """The readers in the order in which they are asked, and a sentence for each broken one."""

    readers: tuple[GpuReader, ...]
    broken: tuple[str, ...] = ()


@functools.cache
def registered() -> RegisteredReaders:
    """Return all readers. A broken one of another package is reported, and the others are used."""
    readers: list[GpuReader] = [reader() for reader in BUILT_IN_READERS]
    broken: list[str] = []
    for entry in entry_points(group=READER_ENTRY_POINTS):
        try:
            reader = _load(entry)
            if any(reader.info.id == present.info.id for present in readers):
                raise ValueError(f"there is another reader with the id {reader.info.id!r}")
            readers.append(reader)
        except Exception as error:  # noqa: BLE001  (foreign code: it must not end a sweep)
            reason = f"{type(error).__name__}: {error}"
            broken.append(f"GPU reader {entry.name} ({entry.value}) is not used: {reason}")
    return RegisteredReaders(tuple(readers), tuple(broken))


def reader_with_id(reader_id: str) -> GpuReader | None:
    """Return the reader that a node's profile names; None if this machine does not have it."""
    return next((r for r in registered().readers if r.info.id == reader_id), None)


def hiding_environment() -> Mapping[str, str]:
    """Return the environment variables with which a framework sees no GPU of any kind."""
    return {
        name: value
        for reader in registered().readers
        for name, value in reader.showing_only(()).items()
    }


def kinds_of_gpus() -> tuple[str, str]:
    """Return the vendors and the libraries that are asked, for messages: `NVIDIA`, `NVML`."""
    infos = [reader.info for reader in registered().readers]
    return " or ".join(info.vendor for info in infos), ", ".join(info.library for info in infos)


def _load(entry: EntryPoint) -> GpuReader:
    reader = entry.load()()
    if not isinstance(reader, GpuReader):
        raise TypeError(f"expected a subclass of {GpuReader.__module__}.GpuReader")
    return reader

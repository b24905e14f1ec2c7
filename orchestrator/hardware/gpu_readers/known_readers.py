"""The readers of GPUs that rnnsweep asks. A new one is a file beside this one, and in `READERS`."""

from collections.abc import Mapping

from orchestrator.hardware.gpu_readers.gpu_reader import GpuReader
from orchestrator.hardware.gpu_readers.nvml import NvmlReader

READERS: tuple[GpuReader, ...] = (NvmlReader(),)
"""In the order in which they are asked."""


def reader_with_id(reader_id: str) -> GpuReader | None:
    """Return the reader that a node's profile names; None if this rnnsweep does not have it."""
    return next((reader for reader in READERS if reader.info.id == reader_id), None)


def hiding_environment() -> Mapping[str, str]:
    """Return the environment variables with which a framework sees no GPU of any kind."""
    return {name: value for reader in READERS for name, value in reader.showing_only(()).items()}


def kinds_of_gpus() -> tuple[str, str]:
    """Return the vendors and the libraries that are asked, for messages: `NVIDIA`, `NVML`."""
    infos = [reader.info for reader in READERS]
    return " or ".join(info.vendor for info in infos), ", ".join(info.library for info in infos)

"""Readers of GPUs: the types that one implements, the list of all of them, and NVIDIA's.

`nvml.py` is the only file that knows NVML. A reader of another vendor's GPUs is one file like it,
and an entry of `registry.READERS`.
"""

from orchestrator.hardware.gpu_readers.gpu_reader import (
    ClockState,
    GpuDevice,
    GpuDriver,
    GpuError,
    GpuLibraryMissing,
    GpuLost,
    GpuMemory,
    GpuReader,
    GpuSample,
    OpenGpuReader,
)
from orchestrator.hardware.gpu_readers.known_readers import (
    READERS,
    hiding_environment,
    kinds_of_gpus,
    reader_with_id,
)

__all__ = [
    "READERS",
    "ClockState",
    "GpuDevice",
    "GpuDriver",
    "GpuError",
    "GpuLibraryMissing",
    "GpuLost",
    "GpuMemory",
    "GpuReader",
    "GpuSample",
    "OpenGpuReader",
    "hiding_environment",
    "kinds_of_gpus",
    "reader_with_id",
]

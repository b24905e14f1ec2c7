"""Readers of GPUs: the types that one implements, the list of all of them, and NVIDIA's.

`nvml.py` is the only file that knows NVML. A reader of another vendor's GPUs is one file like it,
and its name in `registry.BUILT_IN_READERS`; or a package of its own with an entry point.
"""

from orchestrator.hardware.gpu_readers.reader import (
    ClockState,
    GpuDevice,
    GpuDriver,
    GpuError,
    GpuLibraryMissing,
    GpuLost,
    GpuMemory,
    GpuReader,
    GpuSample,
    LinkTraffic,
    OpenGpuReader,
)
from orchestrator.hardware.gpu_readers.registry import (
    hiding_environment,
    kinds_of_gpus,
    reader_with_id,
    registered,
)

__all__ = [
    "ClockState",
    "GpuDevice",
    "GpuDriver",
    "GpuError",
    "GpuLibraryMissing",
    "GpuLost",
    "GpuMemory",
    "GpuReader",
    "GpuSample",
    "LinkTraffic",
    "OpenGpuReader",
    "hiding_environment",
    "kinds_of_gpus",
    "reader_with_id",
    "registered",
]

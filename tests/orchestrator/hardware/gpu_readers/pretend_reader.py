"""A reader of GPUs that nobody makes: the complete example of docs/adding.md.

Its library is a file. `PRETEND_GPUS` names it: one GPU per line, `lost` for one that fell off.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path

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
from orchestrator.hardware.profile import Gpu, GpuReaderInfo


class PretendGpu(GpuDevice):
    """A GPU that draws 50 W, while its line of the file is there."""

    def __init__(self, index: int) -> None:
        self._index = index
        self.errors: dict[str, GpuError] = {}

    def uuid(self) -> str | None:
        return None if self._line() is None else f"PRETEND-{self._index}"

    def facts(self) -> Gpu:
        model, uuid = self._line(), self.uuid()
        if model is None or uuid is None:
            raise self.errors["read_gpu"]
        return Gpu(self._index, model, uuid, memory_mib=8_000, power_limit_w=75.0)

    def sample(self) -> GpuSample:
        if self._line() is None:
            return GpuSample()
        return GpuSample(80.0, GpuMemory(8_000.0, 500.0), 60.0, 1_200.0, ClockState())

    def energy_j(self) -> float | None:
        return None if self._line() is None else 50.0 * time.monotonic()

    def power_w(self) -> float | None:
        return None if self._line() is None else 50.0

    def energy_errors(self) -> Sequence[GpuError]:
        return tuple(self.errors.values())

    def processes(self) -> Sequence[int] | None:
        return None if self._line() is None else (os.getpid(), 4_000_000)

    def _line(self) -> str | None:
        """Return its line of the file, or None and keep the error: no reading raises."""
        lines = Path(os.environ["PRETEND_GPUS"]).read_text().splitlines()
        if lines[self._index] == "lost":
            self.errors["read_gpu"] = GpuLost("read_gpu", "the GPU is gone")
            return None
        self.errors.pop("read_gpu", None)
        return lines[self._index]


class PretendLibrary(OpenGpuReader):
    def close(self) -> None:
        """Nothing is held open."""

    def devices(self) -> Sequence[GpuDevice | GpuError]:
        lines = Path(os.environ["PRETEND_GPUS"]).read_text().splitlines()
        return [PretendGpu(index) for index in range(len(lines))]

    def driver(self) -> GpuDriver:
        return GpuDriver("1.0")


class PretendReader(GpuReader):
    info = GpuReaderInfo(
        id="pretend",
        library="libpretend",
        vendor="Pretend",
        visibility_variable="PRETEND_VISIBLE_DEVICES",
        how_to_reset="a reboot",
    )

    def open(self) -> PretendLibrary:
        if not Path(os.environ.get("PRETEND_GPUS", "")).is_file():
            raise GpuLibraryMissing("open", "PRETEND_GPUS names no file")
        return PretendLibrary()

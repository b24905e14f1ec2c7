"""Sensors of a node's CPUs, where Linux reports them, and values that are read now and then."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
_T = TypeVar("_T")

_SHARE = 0.002
"""The most of a core that a paced value may take: some drivers spin where others wait."""

_MOST = 16
"""How many CPUs are read: each costs a moment, and a trainer's busy ones are among them."""


class Paced(Generic[P, _T]):
    """A value that is read at most every `every_s` seconds, and less often if reading it costs."""

    def __init__(self, read: Callable[P, _T], every_s: float) -> None:
        self._read, self._every_s = read, every_s
        self._next_s = 0.0
        self._value: _T | None = None

    def value(self, *args: P.args, **kwargs: P.kwargs) -> _T | None:
        """Return the value, read again if it is time."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            began_s = time.thread_time()
            self._value = self._read(*args, **kwargs)
            spent_s = time.thread_time() - began_s
            self._next_s = now_s + max(self._every_s, spent_s / _SHARE)
        return self._value


class CpuClocks:
    """The clocks of some CPUs, against those that makers guarantee: a boost depends on luck."""

    # `base_frequency` is of Intel's driver, `nominal_freq` of ACPI's CPPC. Absent: None.

    def __init__(self, cpus: Sequence[int], root: Path = Path("/sys/devices/system/cpu")) -> None:
        self._guaranteed: dict[Path, float | None] = {}
        for folder in (root / f"cpu{cpu}" for cpu in cpus[:_MOST]):
            base_khz = _number(folder / "cpufreq/base_frequency")
            nominal_mhz = _number(folder / "acpi_cppc/nominal_freq")
            self._guaranteed[folder] = base_khz or (nominal_mhz and nominal_mhz * 1000)

    def share(self) -> float | None:
        """Return the fastest CPU's clock as a share of its guaranteed one: idle CPUs are slow."""
        shares = []
        for folder, khz in self._guaranteed.items():
            now_khz = _number(folder / "cpufreq/scaling_cur_freq")
            if khz and now_khz:
                shares.append(now_khz / khz)
        return max(shares, default=None)

    def throttled_s(self) -> float | None:
        """Return for how long any of their packages has been too hot for its clock (it grows)."""
        file = "thermal_throttle/package_throttle_total_time_ms"
        times_ms = (_number(folder / file) for folder in self._guaranteed)
        return max((ms / 1000 for ms in times_ms if ms is not None), default=None)


def _number(file: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        return float(file.read_text())
    return None


@dataclass(slots=True)
class _Package:
    counter: Path
    range_uj: int
    last_uj: int


class Rapl:
    """The energy of all CPU packages since the first reading (RAPL), or the reason for none."""

    def __init__(self, powercap: Path = Path("/sys/class/powercap")) -> None:
        self._packages: list[_Package] = []
        self._total_uj = 0
        self.reason: str | None = f"no energy counter of the CPU in {powercap}"
        # An AMD's packages are listed under intel-rapl as well; `intel-rapl-mmio` would double them
        for zone in sorted(powercap.glob("intel-rapl:*")):
            try:
                if not (zone / "name").read_text().startswith("package"):
                    continue  # cores and memory: parts of a package, or the whole machine
                counter = zone / "energy_uj"
                largest_uj = int((zone / "max_energy_range_uj").read_text())
                self._packages.append(_Package(counter, largest_uj, int(counter.read_text())))
            except PermissionError:
                self._packages.clear()
                self.reason = f"only root may read {zone / 'energy_uj'}"
                return
            except (OSError, ValueError):
                continue
            self.reason = None

    @property
    def is_readable(self) -> bool:
        """Whether the energy of the CPU is counted, and may be read."""
        return bool(self._packages)

    def read_j(self) -> float | None:
        """Return the joules so far, or None; read often: at 100 W a counter restarts in 45 min."""
        if not self._packages:
            return None
        try:
            for package in self._packages:
                now_uj = int(package.counter.read_text())
                self._total_uj += (now_uj - package.last_uj) % (package.range_uj + 1)
                package.last_uj = now_uj
        except (OSError, ValueError) as error:
            self.reason = f"the energy counter of the CPU can no longer be read: {error}"
            self._packages.clear()
            return None
        return self._total_uj / 1e6

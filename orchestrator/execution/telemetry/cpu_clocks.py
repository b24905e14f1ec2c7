"""The clocks of a node's CPUs, where Linux tells them: most virtual machines do not.

A CPU is measured against the clock that its maker guarantees (`base_frequency` of Intel's driver,
`nominal_freq` of ACPI's CPPC), and not against its boost: how long that lasts is a matter of
luck, as it is of what ran before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")

_MOST = 16
"""How many CPUs are looked at: each costs a moment, and a trainer's busy ones are among them."""


class CpuClocks:
    """The clocks of some CPUs. A reading never raises; what is not told is None."""

    def __init__(self, cpus: Sequence[int], root: Path = CPUS) -> None:
        self._folders = [root / f"cpu{cpu}" for cpu in cpus[:_MOST]]
        self._guaranteed = {folder: _guaranteed_khz(folder) for folder in self._folders}

    def share(self) -> float | None:
        """The fastest one's clock as a share of its guaranteed one: an idle one is slow anyway."""
        shares = []
        for folder, khz in self._guaranteed.items():
            now_khz = _number(folder / "cpufreq/scaling_cur_freq")
            if khz and now_khz:
                shares.append(now_khz / khz)
        return max(shares, default=None)

    def throttled_s(self) -> float | None:
        """For how long any of their packages has been too hot for its clock, which grows."""
        told = (
            _number(folder / "thermal_throttle/package_throttle_total_time_ms")
            for folder in self._folders
        )
        return max((ms / 1000 for ms in told if ms is not None), default=None)


def _guaranteed_khz(folder: Path) -> float | None:
    base_khz = _number(folder / "cpufreq/base_frequency")
    if base_khz is not None:
        return base_khz
    nominal_mhz = _number(folder / "acpi_cppc/nominal_freq")
    return nominal_mhz and nominal_mhz * 1000


def _number(file: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        return float(file.read_text())
    return None

"""The energy of a node's CPU packages, as Linux counts it (RAPL), where it may be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


@dataclass(slots=True)
class _Package:
    counter: Path
    range_uj: int
    last_uj: int
    total_uj: int = 0


class Rapl:
    """Counts up from 0 over all packages of the node: everything that runs there is in it."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self._packages: list[_Package] = []
        self.why_not = f"no energy counter of the CPU in {powercap}"
        # An AMD's packages stand under intel-rapl as well; `intel-rapl-mmio` would double them.
        for zone in sorted(powercap.glob("intel-rapl:*")):
            try:
                if not (zone / "name").read_text().startswith("package"):
                    continue  # cores and memory: parts of a package, or the whole machine
                counter = zone / "energy_uj"
                largest_uj = int((zone / "max_energy_range_uj").read_text())
                self._packages.append(_Package(counter, largest_uj, int(counter.read_text())))
            except PermissionError:
                self._packages.clear()
                self.why_not = f"{zone / 'energy_uj'} may be read by root only"
                return
            except (OSError, ValueError):
                continue

    def read_j(self) -> float | None:
        """Joules since the first look; None where a package cannot be read.

        A counter begins anew after `max_energy_range_uj` (at 100 W, after three quarters of an
        hour): it is to be read more often than that.
        """
        if not self._packages:
            return None
        try:
            for package in self._packages:
                now_uj = int(package.counter.read_text())
                package.total_uj += (now_uj - package.last_uj) % (package.range_uj + 1)
                package.last_uj = now_uj
        except (OSError, ValueError) as error:
            self.why_not = f"the energy counter of the CPU went away: {error}"
            self._packages.clear()
            return None
        return sum(package.total_uj for package in self._packages) / 1e6

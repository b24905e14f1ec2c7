"""Cost of telemetry: the share of a core that the sampling of a trial takes, by CPU time.

    python -m tests.benchmarks.telemetry_cost [--seconds 30] [--output FOLDER]

A sleeping process is sampled as a CPU trial and as a GPU trial. GPUs are those of this machine if
it has any, else simulated ones. Simulated GPUs answer at once, unlike a real driver. They show the
cost of the sampling itself, without NVML's part. The CPU time is that of this whole process, which
does nothing else. The target is under 1 % of a core. The exit code is 1 if it is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from orchestrator.execution.telemetry import Instruments, Sampler
from orchestrator.hardware import probe
from tests.benchmarks import rig
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml
from workloads.protocol import Device

_LIMIT = 0.01


@dataclass(frozen=True, slots=True)
class Watched:
    """The cost of telemetry as a share of a core; `whole` samples include the node's state."""

    what: str
    samples: int
    whole: int
    share: float


def main() -> int:
    """Print a line for each kind of trial, and write them if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--output", type=Path, help="write telemetry_cost.json and .txt here")
    asked = parser.parse_args()
    environment = rig.environment("psutil", "nvidia-ml-py")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as process:
        watched = list(_watched(process.pid, asked.seconds))
        process.kill()
    text = as_text(environment, watched)
    print(text)
    if asked.output is not None:
        result = {
            "benchmark": "telemetry_cost",
            "environment": environment,
            "seconds": asked.seconds,
            "watched": [asdict(row) for row in watched],
        }
        rig.keep(asked.output, "telemetry_cost", result, text)
    return 0 if _is_reached(watched) else 1


def as_text(environment: Mapping[str, str], watched: Sequence[Watched]) -> str:
    """Format a line for each kind of trial."""
    verdict = "reached" if _is_reached(watched) else "missed"
    lines = [
        "Cost of the telemetry of a trial",
        rig.heading(environment),
        f"{'watched':<52}{'samples':>9}{'of them whole':>15}{'share of a core':>17}",
        *(f"{row.what:<52}{row.samples:>9}{row.whole:>15}{row.share:>17.2%}" for row in watched),
        f"to reach: under {_LIMIT:.0%} of a core: {verdict}",
    ]
    return "\n".join(lines)


def _is_reached(watched: Sequence[Watched]) -> bool:
    return all(row.share < _LIMIT for row in watched)


def _watched(pid: int, seconds: float) -> Iterator[Watched]:
    yield _watch("a CPU's trial", "cpu", pid, seconds)
    if gpus := probe().gpus:
        yield _watch(f"a GPU's trial: {len(gpus)} × {gpus[0].name}", "gpu", pid, seconds)
        return
    for count in (1, 8):
        for counter in (True, False):
            how = "counter" if counter else "power"
            with _simulated(count, counter=counter):
                what = f"a GPU's trial: {count} simulated, energy by {how}"
                yield _watch(what, "gpu", pid, seconds)


@contextmanager
def _simulated(count: int, *, counter: bool) -> Iterator[None]:
    gpu = SimulatedGpu() if counter else SimulatedGpu(energy_j=None)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        SimulatedNvml([gpu] * count).in_this_process(patch, Path(folder))
        yield


def _watch(what: str, device: Device, pid: int, seconds: float) -> Watched:
    """Sample a process for so long, after a warm-up."""
    instruments = Instruments()
    for limit_s in (1.5, seconds):
        sampler = Sampler(device, pid, None, instruments)
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        sampler.start()
        time.sleep(limit_s)
        seen = sampler.stop()
    share = (time.process_time() - began_cpu_s) / (time.monotonic() - began_s)
    return Watched(
        what, len(seen.samples), sum(sample.node is not None for sample in seen.samples), share
    )


if __name__ == "__main__":
    sys.exit(main())

"""What it costs to watch a trial: the share of a core that the sampling takes, by CPU time.

    python -m tests.benchmarks.telemetry_cost [--seconds 30] [--output FOLDER]

A process that sleeps is watched as a CPU's trial, and as a GPU's trial: beside this machine's own
GPUs where it has any, else beside simulated ones. Those answer at once, as a real driver does not:
they show what the sampling itself takes, and nothing of NVML's part. The CPU time is that of this
whole process, which does nothing else. To reach: under 1 % of a core; ends with 1 where it is
missed.
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
    """What watching took, as a share of a core; `whole` samples hold the node's state, too."""

    what: str
    samples: int
    whole: int
    share: float


def main() -> int:
    """Print a line for each kind of trial; keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--output", type=Path, help="write telemetry_cost.json and .txt here")
    asked = parser.parse_args()
    environment = rig.told("psutil", "nvidia-ml-py")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as process:
        watched = list(_watched(process.pid, asked.seconds))
        process.kill()
    text = as_text(environment, watched)
    print(text)
    if asked.output is not None:
        found = {
            "benchmark": "telemetry_cost",
            "environment": environment,
            "seconds": asked.seconds,
            "watched": [asdict(each) for each in watched],
        }
        rig.keep(asked.output, "telemetry_cost", found, text)
    return 0 if _is_reached(watched) else 1


def as_text(environment: Mapping[str, str], watched: Sequence[Watched]) -> str:
    """A line for each kind of trial."""
    verdict = "reached" if _is_reached(watched) else "missed"
    lines = [
        "What it costs to watch a trial",
        rig.heading(environment),
        f"{'watched':<52}{'samples':>9}{'of them whole':>15}{'share of a core':>17}",
        *(
            f"{each.what:<52}{each.samples:>9}{each.whole:>15}{each.share:>17.2%}"
            for each in watched
        ),
        f"to reach: under {_LIMIT:.0%} of a core: {verdict}",
    ]
    return "\n".join(lines)


def _is_reached(watched: Sequence[Watched]) -> bool:
    return all(each.share < _LIMIT for each in watched)


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
    """Watch for so long, the tools of a first trial being warm."""
    instruments = Instruments()
    for limit_s in (1.5, seconds):
        sampler = Sampler(device, pid, None, instruments)
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        sampler.start()
        time.sleep(limit_s)
        seen = sampler.stop()
    share = (time.process_time() - began_cpu_s) / (time.monotonic() - began_s)
    return Watched(
        what, len(seen.samples), sum(each.node is not None for each in seen.samples), share
    )


if __name__ == "__main__":
    sys.exit(main())

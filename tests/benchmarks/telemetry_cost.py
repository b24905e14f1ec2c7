"""What it costs to watch a trial: the share of a core that the sampling takes, by CPU time.

    python -m tests.benchmarks.telemetry_cost [--seconds 30]

A process that sleeps is watched as a CPU's trial, and as a GPU's trial: beside this machine's own
GPUs where it has any, else beside pretended ones. Those answer at once, as a real driver does not:
they show what the sampling itself takes, and nothing of NVML's part. The CPU time is that of this
whole process, which does nothing else. To reach: under 1 % of a core.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from orchestrator.hardware import probe
from orchestrator.telemetry import Instruments, Sampler
from tests.nvml.pretended import Pretended, PretendedGpu
from workloads.protocol import Device


def main() -> None:
    """Print a line for each kind of trial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    table = Table("watched", "samples", "of them whole", "share of a core", box=None)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as process:
        _row(table, "a CPU's trial", "cpu", process.pid, seconds)
        if gpus := probe().gpus:
            name = f"a GPU's trial: {len(gpus)} × {gpus[0].name}"
            _row(table, name, "gpu", process.pid, seconds)
        for count in () if gpus else (1, 8):
            for counter in (True, False):
                how = "counter" if counter else "power"
                with _pretended(count, counter=counter):
                    name = f"a GPU's trial: {count} pretended, energy by {how}"
                    _row(table, name, "gpu", process.pid, seconds)
        process.kill()
    Console(width=100).print(table)


@contextmanager
def _pretended(count: int, *, counter: bool) -> Iterator[None]:
    gpu = PretendedGpu() if counter else PretendedGpu(energy_j=None)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        Pretended([gpu] * count).in_this_process(patch, Path(folder))
        yield


def _row(table: Table, name: str, device: Device, pid: int, seconds: float) -> None:
    """Watch for so long, the tools of a first trial being warm."""
    instruments = Instruments()
    for limit_s in (1.5, seconds):
        sampler = Sampler(device, pid, None, instruments)
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        sampler.start()
        time.sleep(limit_s)
        seen = sampler.stop()
    share = 100 * (time.process_time() - began_cpu_s) / (time.monotonic() - began_s)
    whole = sum(each.node is not None for each in seen.samples)
    table.add_row(name, str(len(seen.samples)), str(whole), f"{share:.2f} %")


if __name__ == "__main__":
    main()

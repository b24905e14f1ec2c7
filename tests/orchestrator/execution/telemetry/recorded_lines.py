"""Telemetry kept as JSON lines, to be replayed: a recording's head, then one sample a line.

    python -m tests.orchestrator.execution.telemetry.recorded_lines FILE

records this machine for half a minute, around a process that computes in three windows of 4 s and
rests for 2 s between them. It records the machine's GPUs if there are any, else a simulated one
that draws 250 W in the windows and 60 W between.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from orchestrator.execution.telemetry import Recording, Sample, Sampler, TimeWindow
from orchestrator.hardware import probe
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from workloads.protocol import PhaseBegan, PhaseEnded

_head: TypeAdapter[Recording] = TypeAdapter(Recording)
_sample: TypeAdapter[Sample] = TypeAdapter(Sample)

_WORK = """
import sys
for line in sys.stdin:
    begin = float(line)
    import time
    while time.monotonic() < begin + 4.0:
        sum(range(10_000))
"""
_EDGES_S = (2.0, 6.0, 8.0, 12.0, 14.0, 18.0)
"""Begin and end of the windows, from the start of the simulation."""


def to_lines(recording: Recording) -> str:
    """Return a recording as text."""
    lines = [_head.dump_json(replace(recording, samples=()), exclude_none=True)]
    lines += [_sample.dump_json(sample, exclude_none=True) for sample in recording.samples]
    return "".join(f"{line.decode()}\n" for line in lines)


def from_lines(text: str) -> Recording:
    """A recording from text, strictly."""
    head, *lines = text.splitlines()
    samples = [_sample.validate_json(line, strict=True) for line in lines]
    return replace(_head.validate_json(head), samples=samples)


def main() -> None:
    """Record."""
    gpus = probe().gpus
    with (
        _simulated() if not gpus else _nothing(),
        subprocess.Popen(
            [sys.executable, "-c", _WORK], stdin=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdin is not None
        began_s = time.monotonic()
        sampler = Sampler("gpu", process.pid, "0")
        sampler.start()
        for begin_s, end_s in zip(_EDGES_S[::2], _EDGES_S[1::2], strict=True):
            time.sleep(began_s + begin_s - time.monotonic())
            now_s = time.monotonic()
            sampler.take(PhaseBegan("train", now_s))
            process.stdin.write(f"{now_s}\n")
            process.stdin.flush()
            time.sleep(began_s + end_s - time.monotonic())
            sampler.take(PhaseEnded("train", time.monotonic(), time.monotonic() - now_s))
        time.sleep(1.5)
        recording = sampler.stop()
    Path(sys.argv[1]).write_text(to_lines(_from_zero(recording)), encoding="utf-8")


@contextmanager
def _simulated() -> Iterator[None]:
    power, energy, total = [Trend(60.0)], [Trend(5e4, per_s=60.0, every_s=0.1)], 5e4
    before_s, watts = 0.0, 60.0
    for at_s, following in zip(_EDGES_S, itertools.cycle((250.0, 60.0)), strict=False):
        total += watts * (at_s - before_s)
        before_s, watts = at_s, following
        power.append(Trend(watts, from_s=at_s))
        energy.append(Trend(total, per_s=watts, from_s=at_s, every_s=0.1))
    gpu = SimulatedGpu(power_w=power, energy_j=energy)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        SimulatedNvml([gpu]).in_this_process(patch, Path(folder))
        yield


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _from_zero(recording: Recording) -> Recording:
    """Return it with times from 0, in milliseconds, without this machine's uptime."""
    zero_s = recording.samples[0].at_s
    moved = [replace(s, at_s=round(s.at_s - zero_s, 3)) for s in recording.samples]
    windows = [
        TimeWindow(round(window.began_s - zero_s, 3), round(window.ended_s - zero_s, 3))
        for window in recording.windows
    ]
    return replace(recording, samples=moved, windows=windows)


if __name__ == "__main__":
    main()

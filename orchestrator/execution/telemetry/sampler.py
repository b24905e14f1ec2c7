"""A thread that samples the node and its GPUs while a trainer runs a trial.

It takes under 1 % of a core by construction: after each sample it rests for at least a hundred
times the CPU time that the sample took.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field

import psutil

from orchestrator.execution.telemetry.cpu_sensors import Rapl
from orchestrator.execution.telemetry.gpu_gauge import GpuGauge, KeptNvml
from orchestrator.execution.telemetry.node_gauge import Neighbours, NodeGauge
from orchestrator.execution.telemetry.readings import (
    GpuProblem,
    GpuReading,
    Recording,
    Sample,
    TimeWindow,
    merged,
)
from orchestrator.execution.telemetry.samples import SampleBuffer
from workloads import protocol

_TRAINING = "train"
"""The phase of the timed epochs."""

_SETTLE_S = 0.05
"""A trial that is over before this is not sampled: it is too short for any figure."""

_COUNTER_S = 0.2
"""How often energy is counted: NVML's counters move about every 0.1 s, and edges are interpolated
between two samples."""

_POWER_S = 0.1
"""How often power is read if it has to be integrated."""

_WHOLE_S = 1.0
"""How often everything else is read."""

_REST = 120.0
"""Seconds of rest for each second of CPU time: at most 0.83 % of a core."""

_LONGEST_REST_S = 2.0
"""Longer rests would leave gaps. No sample is known to cost more than 17 ms."""

_LAST_SAMPLE_S = 0.5
"""How long the end of a trial waits for the last sample: a hanging driver must not delay it."""

_SUSPENSION_S = 0.5
"""A shorter difference between two clocks may be the time between reading them."""


@dataclass(slots=True)
class Instruments:
    """Instruments that are kept from trial to trial: opening NVML or listing processes takes long.

    One sampler uses it at a time.
    """

    nvml: KeptNvml = field(default_factory=KeptNvml)
    neighbours: Neighbours = field(default_factory=Neighbours)
    rapl: Rapl = field(default_factory=Rapl)


class Sampler:
    """A sampler of one trial, from `start` to `stop`; `take` receives the trainer's events."""

    def __init__(
        self,
        device: protocol.Device,
        pid: int,
        visible: str | None,
        instruments: Instruments | None = None,
        rivals: Collection[int] = (),
    ) -> None:
        """Prepare to sample a trainer.

        Args:
            device: the trial's device; a trial on the CPU has no GPU.
            pid: the trainer's process.
            visible: the trainer's `CUDA_VISIBLE_DEVICES`.
            instruments: from the previous trial, whose sampler must have been stopped.
            rivals: the processes of other trainers that are timed in turns with this one. They
                are no disturbance, since each rests in the others' slices.
        """
        self._device, self._pid, self._visible = device, pid, visible
        self._rivals = tuple(rivals)
        self._instruments = instruments or Instruments()
        self._lock = threading.Lock()
        self._samples = SampleBuffer()
        self._windows: list[TimeWindow] = []
        self._gpu_problems: tuple[GpuProblem, ...] = ()
        self._package_reason: str | None = None
        self._failure: str | None = None
        self._cost_pct: float | None = None
        self._slept_s = _slept_s()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="telemetry")

    @property
    def hangs(self) -> bool:
        """Return whether it was stopped and still waits for its GPU: its instruments are in use."""
        return self._ending.is_set() and self._thread.is_alive()

    def start(self) -> None:
        """Begin to sample. If no thread can be started, the trial continues without telemetry."""
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def take(self, event: protocol.Event) -> None:
        """Note where the training of a timed epoch begins and ends."""
        if not isinstance(event, protocol.PhaseBegan | protocol.PhaseEnded):
            return
        if event.phase != _TRAINING:
            return
        with self._lock:
            self._samples.edge(event.at_s)
        if isinstance(event, protocol.PhaseEnded):
            self._windows.append(TimeWindow(event.at_s - event.seconds, event.at_s))

    def stop(self) -> Recording:
        """End the sampling and return everything that was recorded."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=_LAST_SAMPLE_S)
        with self._lock:
            samples = self._samples.all()
        problems = self._gpu_problems
        if self._failure is not None:
            problems = (*problems, GpuProblem(self._failure))
        if self._thread.is_alive() and self._device == "gpu":
            problems = (*problems, GpuProblem(f"NVML did not answer within {_LAST_SAMPLE_S:g} s"))
        return Recording(
            self._device,
            samples,
            merged(self._windows),
            problems,
            self._failure or self._package_reason,
            self._cost_pct,
        )

    # The rest runs in the thread.

    def _run(self) -> None:
        if self._ending.wait(_SETTLE_S):
            return
        began_s, began_cpu_s = time.monotonic(), time.thread_time()
        gpus = None
        try:
            node = NodeGauge(self._pid, self._instruments.neighbours, self._rivals)
            if self._device == "gpu":
                gpus = GpuGauge(self._instruments.nvml, self._visible)
            self._loop(gpus, node, self._instruments.rapl)
        except psutil.Error:
            pass  # the trainer has ended; what was sampled so far stays
        except Exception as error:  # noqa: BLE001  (a trial must outlive its telemetry)
            self._failure = f"telemetry failed: {type(error).__name__}: {error}"
        finally:
            sampled_s = time.monotonic() - began_s
            if sampled_s > _WHOLE_S:
                self._cost_pct = 100 * (time.thread_time() - began_cpu_s) / sampled_s
            if gpus is not None:
                gpus.close()

    def _loop(self, gpus: GpuGauge | None, node: NodeGauge, rapl: Rapl) -> None:
        whole_at_s = 0.0
        every_s = _COUNTER_S if gpus is None or gpus.counts_energy else _POWER_S
        counts = gpus is not None or rapl.read_j() is not None
        while True:
            last = self._ending.is_set()
            began_cpu_s = time.thread_time()
            whole = last or time.monotonic() >= whole_at_s
            if whole:
                whole_at_s = time.monotonic() + _WHOLE_S
            if whole or counts:
                self._sample(gpus, node, rapl, whole=whole)
            if last:
                return
            spent_s = time.thread_time() - began_cpu_s
            rest_s = min(_LONGEST_REST_S, max(every_s if counts else _WHOLE_S, _REST * spent_s))
            if not self._ending.wait(rest_s):
                node.look()  # takes its own rest

    def _sample(self, gpus: GpuGauge | None, node: NodeGauge, rapl: Rapl, *, whole: bool) -> None:
        at_s, slept_s = time.monotonic(), _slept_s()
        slept, self._slept_s = slept_s - self._slept_s > _SUSPENSION_S, slept_s
        package_j = rapl.read_j()
        readings: tuple[GpuReading, ...] = ()
        if gpus is not None:
            family = node.family if whole else None
            readings = gpus.read(family=family, trainers=1 + len(self._rivals))
        sample = Sample(at_s, readings, node.read() if whole else None, package_j, slept=slept)
        with self._lock:
            self._samples.add(sample)
        if gpus is not None:
            self._gpu_problems = gpus.problems
        if package_j is None:
            self._package_reason = rapl.reason


def _slept_s() -> float:
    """Return how long the machine has been suspended, which the monotonic clock does not count."""
    if not hasattr(time, "CLOCK_BOOTTIME"):  # Linux has it
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)

"""A thread that samples the node and its GPUs while a trainer runs a trial.

After each sample it rests for at least a hundred times the CPU time that the sample took.
"""

import contextlib
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field

import psutil

from orchestrator.execution.telemetry import readings
from orchestrator.execution.telemetry.gpu_gauge import GpuGauge
from orchestrator.execution.telemetry.node_gauge import Neighbours, NodeGauge
from orchestrator.execution.telemetry.sensors import Rapl
from workloads import protocol

_SETTLE_S = 0.05
"""A trial that is over before this is not sampled: it is too short for any figure."""

_COUNTER_S = 0.2
"""How often energy is counted: the GPUs' counters move about every 0.1 s, and edges are
interpolated between two samples."""

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


@dataclass(slots=True)
class Instruments:
    """Instruments of one sampler at a time, kept between trials: opening them takes long."""

    gpus: GpuGauge = field(default_factory=GpuGauge)
    neighbours: Neighbours = field(default_factory=Neighbours)
    rapl: Rapl = field(default_factory=Rapl)

    def renew(self) -> None:
        """Replace all of them: a sampler that hangs keeps the old ones."""
        self.gpus, self.neighbours, self.rapl = GpuGauge(), Neighbours(), Rapl()


class TelemetrySampler:
    """A sampler of one trial, from `start` to `stop`; `note_event` gets the trainer's events."""

    def __init__(
        self,
        device: protocol.Device,
        pid: int,
        instruments: Instruments,
        other_pids: Collection[int] = (),
    ) -> None:
        """Prepare to sample `pid`; `other_pids` are trainers that take turns with it, or idle."""
        self.lost_gpu: str | None = None  # why the trial must end
        self._device, self._pid, self._other_pids = device, pid, tuple(other_pids)
        self._instruments, self._rapl = instruments, instruments.rapl
        self._neighbours = instruments.neighbours
        self._gpus = instruments.gpus if device == "gpu" else None
        self._lock = threading.Lock()
        self._samples = readings.SampleBuffer()
        self._windows: list[readings.TimeWindow] = []
        self._failure: str | None = None
        self._cost_pct: float | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="telemetry")

    def start(self) -> None:
        """Begin to sample. If no thread can be started, the trial continues without telemetry."""
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def note_event(self, event: protocol.Event) -> None:
        """Note where the training of a timed epoch begins and ends."""
        if isinstance(event, protocol.PhaseBegan | protocol.PhaseEnded) and event.phase == "train":
            with self._lock:
                self._samples.edge(event.at_s)
            if isinstance(event, protocol.PhaseEnded):
                self._windows.append(readings.TimeWindow(event.at_s - event.seconds, event.at_s))

    def stop(self) -> readings.Recording:
        """End the sampling and return everything that was recorded."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=_LAST_SAMPLE_S)
        with self._lock:
            samples = self._samples.all()
        gpu_reason, gpu_errors = self._failure, list[readings.GpuErrors]()
        if self._thread.is_alive():  # it waits for its GPU, and has its instruments in use
            self._instruments.renew()
            silent = "the node" if self._gpus is None else self._gpus.library
            gpu_reason = f"{silent} did not answer within {_LAST_SAMPLE_S:g} s"
        elif self._gpus is not None:
            gpu_reason = gpu_reason or self._gpus.reason
            gpu_errors = self._gpus.errors
        return readings.Recording(
            device=self._device,
            samples=samples,
            windows=readings.merged(self._windows),
            gpu_reason=gpu_reason,
            gpu_errors=gpu_errors,
            package_reason=self._failure or self._rapl.reason,
            cost_pct=self._cost_pct,
            gpu_reader=None if self._gpus is None else self._gpus.reader_id,
        )

    # The rest runs in the thread.

    def _run(self) -> None:
        """Sample until the end, and keep what the sampling itself cost in CPU time."""
        if self._ending.wait(_SETTLE_S):
            return
        began_s, began_cpu_s = time.monotonic(), time.thread_time()
        try:
            node = NodeGauge(self._pid, self._neighbours, self._other_pids)
            if self._gpus is not None:
                self._gpus.find()
            self._loop(node)
        except psutil.Error:
            pass  # the trainer has ended; what was sampled so far stays
        except Exception as error:  # noqa: BLE001  (a trial must outlive its telemetry)
            self._failure = f"telemetry failed: {type(error).__name__}: {error}"
        finally:
            sampled_s = time.monotonic() - began_s
            if sampled_s > _WHOLE_S:
                self._cost_pct = 100 * (time.thread_time() - began_cpu_s) / sampled_s
            if self._gpus is not None:
                self._gpus.release()

    def _loop(self, node: NodeGauge) -> None:
        """Take whole samples at intervals, and samples of energy alone between them.

        A sample that takes long is followed by a longer rest, so that sampling stays cheap.
        """
        whole_at_s = 0.0
        every_s = _COUNTER_S if self._gpus is None or self._gpus.counts_energy else _POWER_S
        counts = self._gpus is not None or self._rapl.read_j() is not None
        while True:
            last = self._ending.is_set()
            began_cpu_s = time.thread_time()
            whole = last or time.monotonic() >= whole_at_s
            if whole:
                whole_at_s = time.monotonic() + _WHOLE_S
            if whole or counts:
                self._sample(node, whole=whole)
            if last:
                return
            spent_s = time.thread_time() - began_cpu_s
            rest_s = min(_LONGEST_REST_S, max(every_s if counts else _WHOLE_S, _REST * spent_s))
            if not self._ending.wait(rest_s):
                node.look()  # takes its own rest

    def _sample(self, node: NodeGauge, *, whole: bool) -> None:
        """Take one sample; one that is not `whole` has energy and power alone."""
        at_s, package_j = time.monotonic(), self._rapl.read_j()
        gpus: tuple[readings.GpuReading, ...] = ()
        if self._gpus is not None:
            family = node.family if whole else None
            gpus = self._gpus.read(family=family, trainers=1 + len(self._other_pids))
            self.lost_gpu = self._gpus.lost
        sample = readings.Sample(at_s, gpus, node.read() if whole else None, package_j)
        with self._lock:
            self._samples.add(sample)

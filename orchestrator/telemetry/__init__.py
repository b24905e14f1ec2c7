"""What a trial drew, heated, and shared its node with: sampled beside its trainer, from outside."""

from orchestrator.telemetry.record import record
from orchestrator.telemetry.recording import Recording
from orchestrator.telemetry.sampler import Instruments, Sampler
from orchestrator.telemetry.samples import GpuReading, NodeReading, Sample, Window
from orchestrator.telemetry.series import curves
from orchestrator.telemetry.summary import Summary, summarise

__all__ = [
    "GpuReading",
    "Instruments",
    "NodeReading",
    "Recording",
    "Sample",
    "Sampler",
    "Summary",
    "Window",
    "curves",
    "record",
    "summarise",
]

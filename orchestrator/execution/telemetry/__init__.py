"""What a trial drew, heated, and shared its node with: sampled beside its trainer, from outside."""

from orchestrator.execution.telemetry.curve_points import curves
from orchestrator.execution.telemetry.outcome_fields import record
from orchestrator.execution.telemetry.readings import GpuReading, NodeReading, Sample, TimeWindow
from orchestrator.execution.telemetry.recording import Recording
from orchestrator.execution.telemetry.sampler import Instruments, Sampler
from orchestrator.execution.telemetry.summary import Summary, summarise

__all__ = [
    "GpuReading",
    "Instruments",
    "NodeReading",
    "Recording",
    "Sample",
    "Sampler",
    "Summary",
    "TimeWindow",
    "curves",
    "record",
    "summarise",
]

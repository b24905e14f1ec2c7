"""Energy, heat and load of a trial's node, sampled from outside its trainer."""

from orchestrator.execution.telemetry.curve_points import curves
from orchestrator.execution.telemetry.readings import (
    GpuReading,
    NodeReading,
    Recording,
    Sample,
    TimeWindow,
)
from orchestrator.execution.telemetry.sampler import Instruments, Sampler
from orchestrator.execution.telemetry.summary import Summary, record, summarise

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

"""Energy, heat and load of a trial's node, sampled from outside its trainer."""

from orchestrator.execution.telemetry.readings import Recording, TimeWindow
from orchestrator.execution.telemetry.sampler import Instruments, TelemetrySampler
from orchestrator.execution.telemetry.summary import record

__all__ = ["Instruments", "Recording", "TelemetrySampler", "TimeWindow", "record"]

"""Energy, heat and load of a trial's node, sampled from outside its trainer."""

from orchestrator.execution.telemetry.node_gauge import OthersMeter
from orchestrator.execution.telemetry.readings import Recording, TimeWindow
from orchestrator.execution.telemetry.sampler import Instruments, TelemetrySampler
from orchestrator.execution.telemetry.telemetry_summary import record

__all__ = ["Instruments", "OthersMeter", "Recording", "TelemetrySampler", "TimeWindow", "record"]

"""The peaks of the hardware: a short roofline of each class, measured by trainers and stored.

Each installed backend measures a matrix product and a copy, in each precision of the device (see
`workloads.measuring.roofline`), in a trainer process that has the device to itself.

A trial's own `peak_flops_per_s` is not read from here. The trainer of the trial measures it by the
same method, so that it has the same process, clocks and neighbours as the times it is compared to.
"""

from orchestrator.diagnostics.peaks.measurement import PeakMeasurements, measure
from orchestrator.diagnostics.peaks.stored import Peak, Rate, stored_peaks

__all__ = ["Peak", "PeakMeasurements", "Rate", "measure", "stored_peaks"]

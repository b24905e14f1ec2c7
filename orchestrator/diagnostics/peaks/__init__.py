"""The peaks of the hardware: a short roofline of each class, measured by trainers and stored.

Each installed backend measures a matrix product and a copy, in each precision of the device (see
`workloads.measuring.roofline`), in a trainer process that has the device to itself. The sweep home
stores the results by hardware class and versions; `rnnsweep hardware` shows them.

A trial's own `peak_flops_per_s` is not read from here. The trainer of the trial measures it by the
same method, so that it has the same process, clocks and neighbours as the times it is compared to.
"""

from __future__ import annotations

from orchestrator.diagnostics.peaks.cache import stored_peaks
from orchestrator.diagnostics.peaks.measurement import PeakMeasurements, measure

__all__ = ["PeakMeasurements", "measure", "stored_peaks"]

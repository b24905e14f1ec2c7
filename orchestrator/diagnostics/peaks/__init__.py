"""What the hardware reaches: a short roofline of each class, measured by trainers and kept.

Each installed backend is asked for its matrix product and its copy, in each precision that the
device has (`workloads.measuring.roofline` has the method), by a trainer process that has the
device to
itself. What was measured is kept in the sweep home by hardware class and versions, and shown by
`rnnsweep hardware`.

A trial's own `peak_flops_per_s` is measured by the same method, by the trainer that runs the
trial, and not read from here: then it is of the same process, clocks and neighbours as the times
that it is set against.
"""

from __future__ import annotations

from orchestrator.diagnostics.peaks.cache import kept
from orchestrator.diagnostics.peaks.measurement import PeakMeasurements, measure

__all__ = ["PeakMeasurements", "kept", "measure"]

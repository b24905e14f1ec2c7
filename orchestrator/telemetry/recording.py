"""All that was seen of one trial: what a summary is made from, whoever recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.telemetry.samples import Sample, Window
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Recording:
    """A trial's samples and the windows of its timed epochs, which do not overlap.

    `gpu_problems` say what its GPUs did not tell, and `why_no_package` why there is no energy of
    the CPU. `cost_pct` is what the sampling took, of one core.
    """

    device: Device
    samples: Sequence[Sample]
    windows: Sequence[Window]
    gpu_problems: Sequence[str] = ()
    why_no_package: str = ""
    cost_pct: float | None = None

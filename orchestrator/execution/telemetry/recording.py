"""All that was seen of one trial: what a summary is made from, whoever recorded it."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.execution.telemetry.readings import Sample, TimeWindow
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Recording:
    """A trial's samples and the windows of its timed epochs, which do not overlap.

    `gpu_problems` say what its GPUs did not tell, and `why_no_package` why there is no energy of
    the CPU. `cost_pct` is what the sampling took, of one core.
    """

    device: Device
    samples: Sequence[Sample]
    windows: Sequence[TimeWindow]
    gpu_problems: Sequence[str] = ()
    why_no_package: str = ""
    cost_pct: float | None = None

    def of(self, device: Device, windows: Sequence[TimeWindow]) -> Recording:
        """What is one trial's of several that took turns: a CPU's has no GPU, as by itself."""
        if device == "gpu":
            return replace(self, windows=windows)
        samples = [replace(each, gpus=()) for each in self.samples]
        return replace(self, device=device, samples=samples, windows=windows, gpu_problems=())

    def inside(self) -> list[Sample]:
        """The samples that were taken in the timed epochs."""
        begins = [window.began_s for window in self.windows]

        def holds(sample: Sample) -> bool:
            at = bisect.bisect_right(begins, sample.at_s) - 1
            return at >= 0 and sample.at_s < self.windows[at].ended_s

        return [each for each in self.samples if holds(each)]

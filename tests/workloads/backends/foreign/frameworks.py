"""The frameworks of the foreign backends, which only a trainer process imports."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workloads.backends.feeding import Batches, Feed
from workloads.backends.framework import Framework
from workloads.backends.kernel_evidence import EagerStep, Proof, RecurrentPart
from workloads.backends.passes import Passes
from workloads.backends.tensorflow.framework import TensorFlowFramework
from workloads.context import Fact
from workloads.data.samples import Samples
from workloads.failures import NotPossible
from workloads.implementations import Implementation
from workloads.protocol import Device, TimedWork


class MirrorFramework(TensorFlowFramework):
    def framework_facts(self) -> Mapping[str, Fact]:
        return {**super().framework_facts(), "mirror": "1.0"}


class ArrayFramework(Framework):
    def fix_threads(self, count: int) -> None:
        pass

    def has_gpu(self) -> bool:
        return False

    def synchronise(self, values: Any = None) -> None:
        pass

    def framework_facts(self) -> Mapping[str, Fact]:
        return {"devices": "CPU"}

    def make_feed(self, samples: Samples, batch_size: int, device: Device) -> Feed:
        return Feed(Batches(samples, batch_size))

    def make_passes(self, model: Any, implementation: Implementation) -> Passes:
        def forward_backward(batch: Any) -> Any:
            raise NotPossible("NumPy has no gradients")

        return Passes(model, model, forward_backward, np.asarray)

    def prove_eager(self, step: EagerStep, parts: Sequence[RecurrentPart]) -> Proof:
        return Proof("unknown", "NumPy records no operations")

    def prove_passes(
        self,
        passes: Passes,
        batch: Any,
        parts: Sequence[RecurrentPart],
        implementation: Implementation,
        timed_work: TimedWork,
    ) -> Proof:
        return Proof("unknown", "NumPy records no operations")

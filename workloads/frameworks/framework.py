"""What differs between TensorFlow, JAX and PyTorch, beneath Keras: one module for each, alike.

A trainer process has one of them for life (`workloads.backend`). Nothing here imports a framework
before `current` is asked for one.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from workloads.context import Fact
from workloads.data.samples import Samples
from workloads.frameworks.feeding import Feed
from workloads.implementations import Implementation
from workloads.protocol import Device

if TYPE_CHECKING:
    import workloads.frameworks.jax as jax_framework
    import workloads.frameworks.tensorflow as tensorflow_framework
    import workloads.frameworks.torch as torch_framework


class Framework(Protocol):
    """What each of the modules `workloads.frameworks.{tensorflow,jax,torch}` does."""

    def configure(self, implementation: Implementation, device: Device) -> None:
        """Fix the thread pools (once a process) and this trial's precision.

        Pools follow the CPU affinity and the cgroup's quota. TF32 is on or off, explicitly.
        """

    def expect_device(self, device: Device) -> None:
        """Refuse a GPU trial where no GPU is visible: it would quietly run on the CPU.

        Raises:
            NotPossible: the framework sees no GPU.
        """

    def seed(self, seed: int) -> None:
        """Seed Python's, NumPy's and its own generators, from 32 bits.

        Those of Keras' layers have seeds of their own.
        """

    def random_state(self) -> Any:
        """The state of the framework's own generators."""

    def restore_random_state(self, state: Any) -> None:
        """Put back what `random_state` returned."""

    def synchronise(self, values: Any = None) -> None:
        """Wait until the device has done what it was given.

        Args:
            values: what must be complete. JAX cannot wait for a device, only for arrays: it waits
                for these, or for all that live. The others wait for the device.
        """

    def make_feed(self, samples: Samples, batch_size: int, device: Device) -> Feed:
        """What `fit`, `evaluate` and `predict` are given, so that they never wait for data.

        Batches come in the order of the samples; the last one may be smaller. Arrays that are
        mapped from a file are read batch by batch.
        """

    def sum_gradients(self, optimizer: Any) -> None:
        """Let an optimizer see one gradient for each variable, as it does on the other backends."""

    def tracing_record(self, arguments: Any) -> Any | None:
        """What evidence needs of a step that is being traced; None where it runs as it is.

        Args:
            arguments: what the step was called with.
        """

    def compilation_count(self) -> int:
        """How often a program was compiled so far; 0 on backends that do not tell."""

    def reset_peak_memory(self) -> None:
        """Forget the peak of the GPU's memory so far."""

    def peak_gpu_mib(self) -> float | None:
        """The most GPU memory held since `reset_peak_memory`; None on a CPU."""

    def release_memory(self) -> None:
        """Drop what a trial leaves behind, so that a warm process does not grow."""

    def facts(self) -> Mapping[str, Fact]:
        """Versions, devices, threads and switches that may explain a time."""


def load_framework(backend: str) -> Framework:
    """The framework of a backend; imports it.

    Args:
        backend: that of this process (`KERAS_BACKEND`), since Keras is imported with it.
    """
    return cast(Framework, importlib.import_module(f"workloads.frameworks.{backend}"))


if TYPE_CHECKING:  # holds each module against the protocol
    _ALIKE: tuple[Framework, ...] = (tensorflow_framework, jax_framework, torch_framework)

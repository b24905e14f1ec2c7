"""The interface to what differs between TensorFlow, JAX and PyTorch beneath Keras.

Each of the modules `workloads.frameworks.{tensorflow,jax,torch}` implements it. A trainer process
has one framework for life (`workloads.backend`); only `load_framework` imports one.
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
    """The functions of a framework module."""

    def configure(self, implementation: Implementation, device: Device) -> None:
        """Fix the thread pools (once per process) and this trial's precision.

        Pools follow the CPU affinity and the cgroup's quota. TF32 is switched on or off explicitly.
        """

    def expect_device(self, device: Device) -> None:
        """Refuse a GPU trial if no GPU is visible: it would silently run on the CPU.

        Raises:
            NotPossible: the framework sees no GPU.
        """

    def seed(self, seed: int) -> None:
        """Seed the generators of Python, NumPy and the framework with a 32-bit number.

        Keras' layers have generators with seeds of their own.
        """

    def random_state(self) -> Any:
        """Return the state of the framework's own generators."""

    def restore_random_state(self, state: Any) -> None:
        """Restore the result of `random_state`."""

    def synchronise(self, values: Any = None) -> None:
        """Wait until the device has finished its work.

        Args:
            values: arrays that must be complete. JAX cannot wait for a device, only for arrays: it
                waits for these, or for all live arrays. The others wait for the device.
        """

    def make_feed(self, samples: Samples, batch_size: int, device: Device) -> Feed:
        """Return the data for `fit`, `evaluate` and `predict`, so that they never wait for data.

        Batches have the order of the samples; the last one may be smaller. Arrays that are mapped
        from a file are read batch by batch.
        """

    def sum_gradients(self, optimizer: Any) -> None:
        """Give an optimizer one gradient per variable, as on the other backends."""

    def tracing_record(self, arguments: Any) -> Any | None:
        """Return what the evidence needs of a step that is being traced; None for an untraced step.

        Args:
            arguments: the arguments of the step.
        """

    def compilation_count(self) -> int:
        """Return the number of compilations so far; always 0 on a backend without this count."""

    def reset_peak_memory(self) -> None:
        """Reset the peak of the GPU's memory."""

    def peak_gpu_mib(self) -> float | None:
        """Return the peak GPU memory since `reset_peak_memory`, in MiB; None on a CPU."""

    def release_memory(self) -> None:
        """Release what a trial left in memory, so that a warm process does not grow."""

    def facts(self) -> Mapping[str, Fact]:
        """Return versions, devices, threads and switches that may explain a time."""


def load_framework(backend: str) -> Framework:
    """Import and return the framework of a backend.

    Args:
        backend: the backend of this process (`KERAS_BACKEND`), since Keras is imported with it.
    """
    return cast(Framework, importlib.import_module(f"workloads.frameworks.{backend}"))


if TYPE_CHECKING:  # checks every module against the protocol
    _IMPLEMENTATIONS: tuple[Framework, ...] = (tensorflow_framework, jax_framework, torch_framework)

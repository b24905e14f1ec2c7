"""The heavy half of a backend: its framework, in a trainer process of its own. Imports Keras."""

import contextlib
import functools
import gc
import importlib.metadata
import platform
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np

from workloads.backends.backend import CUDNN_PACKAGES, Backend
from workloads.backends.kernel_evidence import EagerStep, Proof, RecurrentPart
from workloads.backends.passes import Batch, CheckedModel, OutputsAndGradients, Passes
from workloads.backends.process_settings import ProcessSetting
from workloads.backends.stack_call import StackCall
from workloads.context import RecordedFact
from workloads.failures import NotPossible
from workloads.implementations import DTYPE_POLICIES, PRECISION_OF_TYPE, Implementation
from workloads.number_format import OwnNumberFormat
from workloads.protocol import Device, TimedWork
from workloads.resources import usable_cpus

BYTES_PER_MIB = 2**20


def set_dtype_policy(implementation: Implementation, own: OwnNumberFormat | None = None) -> None:
    """Set the number format that new layers compute in.

    It is the one that the user's file has set (`own`), if it sets any, else the precision of the
    implementation with variables in float32.
    """
    keras.config.set_floatx((own and own.floatx) or _usual_floatx())
    policy = DTYPE_POLICIES.get(implementation.precision, keras.config.floatx())
    keras.config.set_dtype_policy((own and own.policy) or policy)


@functools.cache
def _usual_floatx() -> str:
    """Return the type of numbers before any user's file is imported: Keras' file may set it."""
    floatx: str = keras.config.floatx()
    return floatx


def installed_cudnn() -> str | None:
    """Return the version of the installed cuDNN package; None if cuDNN comes from elsewhere."""
    for package in reversed(CUDNN_PACKAGES):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return None


def keras_backend() -> str:
    """Return the backend that Keras has now: `set_backend` imports Keras anew."""
    name: str = sys.modules["keras"].backend.backend()
    return name


def _refuse_change(value: object) -> None:
    raise NotPossible(f"Keras cannot go back to {value}")


class Framework(ABC):
    """The framework of this process, made by `workloads.backends.loading.load_framework`.

    A trial of a built-in workload calls it in this order: `configure`, `expect_device`, `seed` and
    `facts`; `tracing_record` while it trains, and `synchronise` at both ends of each timed window;
    one of the `prove_…` methods after that; and `release_memory` at the end. A process runs many
    trials, one after the other, on one device.

    Methods that are not abstract have the answer of a framework without the feature.
    """

    _is_configured = False

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    # The process and its device

    def configure(
        self,
        implementation: Implementation,
        device: Device,
        own_format: OwnNumberFormat | None = None,
    ) -> None:
        """Fix the thread pools (once per process) and this trial's precision.

        Raise `NotPossible` if the pools cannot be fixed any more, because an operation has run.
        """
        # Pools follow the CPU affinity and the cgroup's quota; TF32 is always switched explicitly.
        if not self._is_configured:
            try:
                self.fix_threads(usable_cpus())
            except RuntimeError as error:
                raise NotPossible(
                    f"{self.backend.title} computed something before the trial, which fixes its"
                    f" threads ({error}): compute nothing when the workload's file is imported"
                ) from error
            self._is_configured = True
        self.switch_tf32(implementation.precision == "tf32")
        set_dtype_policy(implementation, own_format)

    def precision_in_use(self, implementation: Implementation) -> str:
        """Return what new layers compute in: `bf16`, as in an option, or a type: `float64`."""
        kind = keras.config.dtype_policy().compute_dtype
        if kind == "float32":
            return implementation.precision
        return PRECISION_OF_TYPE.get(kind, kind)

    def process_settings(self) -> Iterator[ProcessSetting]:
        """Yield the switches of the process that an arm decides.

        None of them is read or written in a way that lets the framework begin its work.
        """
        yield ProcessSetting("Keras' backend", ("set_backend",), keras_backend, _refuse_change)

    def expect_backend(self) -> None:
        """Raise `NotPossible` if Keras runs on another backend than this one."""
        found = keras_backend()
        if found != self.backend.name:
            raise NotPossible(
                f"Keras runs on {found} here, and the arm needs {self.backend.name}: the"
                " workload's code sets KERAS_BACKEND or calls keras.config.set_backend. Remove that"
            )

    @abstractmethod
    def fix_threads(self, count: int) -> None:
        """Size the framework's thread pools; called once, before its first operation."""

    def switch_tf32(self, is_on: bool) -> None:  # noqa: B027
        """Let a GPU round the operands of float32 products to TF32, or forbid it."""

    @abstractmethod
    def has_gpu(self) -> bool:
        """Return True if the framework sees a GPU."""

    def explain_blindness(self) -> str:
        """Return the framework's own reason why it sees no GPU; "" if it gives none."""
        return ""

    def expect_device(self, device: Device) -> None:
        """Raise `NotPossible` for a GPU trial without a GPU, and for a CPU trial that sees one.

        Either would silently run on the other device.
        """
        if device == "cpu" and self.has_gpu():
            raise NotPossible(
                f"device cpu: {self.backend.title} sees a GPU, because the workload's code changes"
                " CUDA_VISIBLE_DEVICES. Remove that"
            )
        if device == "gpu" and not self.has_gpu():
            lines = self.explain_blindness().strip().splitlines()
            reason = f" ({lines[0].strip()})" if lines else ""
            raise NotPossible(
                f"device gpu: {self.backend.title} sees no GPU{reason}. Check the driver,"
                f" CUDA_VISIBLE_DEVICES, and that {self.backend.gpu_advice}"
            )

    def cudnn_failure(self) -> str:
        """Return, as the end of a message, the error of cuDNN that Keras does not show."""
        return ""

    @abstractmethod
    def synchronise(self, values: Any = None) -> None:
        """Wait until the device has finished: all of its work, or at least these values."""

    def seed(self, seed: int) -> None:
        """Seed the generators of Python, NumPy and the framework; Keras' layers have their own."""
        keras.utils.set_random_seed(seed)

    def random_state(self) -> Any:
        """Return the state of the framework's own generators; None if Keras' layers have all."""
        return None

    def restore_random_state(self, state: Any) -> None:  # noqa: B027
        """Restore the result of `random_state`."""

    def compilation_count(self) -> int:
        """Return the number of compilations so far; always 0 on a backend without this count."""
        return 0

    def reset_peak_memory(self) -> None:  # noqa: B027
        """Reset the peak of the GPU's memory, where that is possible."""

    def peak_gpu_mib(self) -> float | None:
        """Return the peak GPU memory since `reset_peak_memory`, in MiB; None on a CPU."""
        return None

    def release_memory(self) -> None:
        """Release what a trial left in memory, so that a warm process does not grow."""
        keras.utils.clear_session()
        gc.collect()

    def facts(self) -> Mapping[str, RecordedFact]:
        """Return versions, devices, threads and switches that may explain a time."""
        return {
            "python": platform.python_version(),
            "keras": keras.__version__,
            "numpy": np.__version__,
            "backend": self.backend.name,
            "usable_cpus": usable_cpus(),
            "dtype_policy": keras.config.dtype_policy().name,
            **self.framework_facts(),
        }

    @abstractmethod
    def framework_facts(self) -> Mapping[str, RecordedFact]:
        """Return the facts of this framework.

        `Backend.package` has its version, and `devices` the names of what it computes on.
        """

    # Predictions and passes

    def place(self, inputs: Any) -> Any:
        """Return the inputs of a batch as tensors where the device reads them without a copy."""
        return keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)

    def make_predict(self, model: Any) -> Callable[[Iterable[Any]], Any]:
        """Return a function that predicts batches in their order, and returns the last outputs.

        It runs the model's own compiled predict function on inputs that `place` returned, without
        Keras' loop and callbacks. It may return before the device has finished. A stateful model
        keeps its states from batch to batch.
        """

        def predict(batches: Iterable[Any]) -> Any:
            outputs = None
            for inputs in batches:
                outputs = model.predict_on_batch(inputs)
            return outputs

        return predict

    @abstractmethod
    def make_passes(self, model: Any, implementation: Implementation) -> Passes:
        """Return the passes of a built Keras model, for the workload `synthetic`."""

    def outputs_and_gradients(
        self, checked: CheckedModel, batch: Batch
    ) -> OutputsAndGradients | None:
        """Run a batch of tensors through a model in inference mode, and differentiate its loss.

        The program is made as the program of training is: eagerly, traced, or compiled by XLA.
        None if the framework has no gradients.
        """
        return None

    def run_stack(self, call: StackCall) -> tuple[Any, tuple[Any, ...]]:
        """Run a stack of recurrent layers in one call of the library: the kernel `fused`.

        Return the outputs of the last layer at every step (batch, steps, directions·units), and the
        final states of all layers, each (layers·directions, batch, units). Raise `ValueError` for
        what the library lacks, and `NotPossible` if it has no such call at all: then the backend's
        `Backend.fused` is None, and planning excludes the kernel.
        """
        raise NotPossible(f"{self.backend.title} has no library call for a stack of layers")

    # Evidence of the kernel that ran

    def tracing_record(self, arguments: Any) -> Any | None:
        """Return what evidence needs of a step that is being traced; None for an untraced one.

        Called with the arguments of a model's step whenever Python runs it: in each step of an
        eager framework, once for each shape of the data where the step becomes a graph.
        """
        return None

    def scope(self, name: str) -> AbstractContextManager[Any]:
        """Return a context whose name evidence finds with the operations that run inside it."""
        scope: AbstractContextManager[Any] = keras.name_scope(name)
        return scope

    def prove_traced(self, record: Any, model: Any, parts: Sequence[RecurrentPart]) -> Proof:
        """Identify the kernel of a traced step from its `tracing_record`.

        The step trains or predicts, as the model's `witness.timed_work` says. `parts` are the
        recurrent layers of the model, each called in its `scope`. A framework whose
        `tracing_record` is always None has no traced step to identify.
        """
        return Proof("unknown", f"{self.backend.title} traces no step")

    @abstractmethod
    def prove_eager(self, step: EagerStep, parts: Sequence[RecurrentPart]) -> Proof:
        """Identify the kernel of an untraced step."""

    @abstractmethod
    def prove_passes(
        self,
        passes: Passes,
        batch: Any,
        parts: Sequence[RecurrentPart],
        implementation: Implementation,
        timed_work: TimedWork,
    ) -> Proof:
        """Identify the kernel of a pass that has run once.

        It is a forward and backward pass where training is timed, else a forward pass.
        """

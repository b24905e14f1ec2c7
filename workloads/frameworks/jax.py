"""JAX as the framework of this process. See `workloads.frameworks.Framework`."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import threading
from collections.abc import Mapping
from typing import Any

import jax
import keras

from workloads.context import Fact
from workloads.cpus import usable_cpus
from workloads.data.samples import Samples
from workloads.failures import NotPossible
from workloads.frameworks import feeding
from workloads.frameworks.feeding import Feed
from workloads.frameworks.process import (
    BYTES_PER_MIB,
    RESIDENT_SHARE,
    keep_out_tensorflow,
    process_facts,
    seed_python,
    set_dtype_policy,
)
from workloads.implementations import Implementation
from workloads.protocol import Device

_POOL = "PJRT_NPROC"
_COMPILED = "/jax/core/compile/backend_compile_duration"
_compiled: list[float] = []
_configured = threading.Lock()  # taken by the first trial, for the life of the process


def configure(implementation: Implementation, device: Device) -> None:
    """Fix the thread pool (once) and the precision.

    XLA sizes its pool when the first device is requested, by the smaller of the CPU affinity and
    this variable, since it reads no cgroup quota. By default, a GPU rounds float32 products to
    TF32.
    """
    if _configured.acquire(blocking=False):
        keep_out_tensorflow()
        os.environ[_POOL] = str(usable_cpus())
        jax.monitoring.register_event_duration_secs_listener(_record_compilation)
    precision = "tensorfloat32" if implementation.precision == "tf32" else "highest"
    jax.config.update("jax_default_matmul_precision", precision)
    set_dtype_policy(implementation)


def expect_device(device: Device) -> None:
    """Refuse a GPU trial if JAX sees no GPU; its plugin may raise if GPUs are hidden."""
    if device == "cpu":
        return
    try:
        answer = jax.default_backend()
    except RuntimeError as error:
        answer = str(error)
    if answer != "gpu":
        raise NotPossible(
            f"device gpu: expected a GPU that JAX can use; it sees none ({answer}): check the"
            " driver, CUDA_VISIBLE_DEVICES, and that jax[cuda12] or jax[cuda13] is installed"
        )


def seed(seed: int) -> None:
    """Seed Python's and NumPy's generators; JAX itself has none."""
    seed_python(seed)


def random_state() -> Any:
    """Return None: JAX draws from keys, which Keras' layers hold as variables."""
    return None


def restore_random_state(state: Any) -> None:
    """Do nothing: there is no state to restore."""


def synchronise(values: Any = None) -> None:
    """Wait for these arrays, or for all live arrays: JAX is asynchronous on a CPU, too."""
    jax.block_until_ready(jax.live_arrays() if values is None else values)


def make_feed(samples: Samples, batch_size: int, device: Device) -> Feed:
    """Return the data for `fit`: arrays if they are in memory, else batches.

    Data that fits stays on a GPU, in batches. Of other arrays Keras copies one batch ahead to a
    GPU.
    """
    if device == "gpu" and _fits(samples):
        host_batches = feeding.iterate_batches(samples, batch_size)
        return Feed(JaxResidentBatches([jax.device_put(batch) for batch in host_batches]))
    if feeding.is_in_memory(samples):
        return feeding.feed_arrays(samples, batch_size)
    return Feed(JaxHostBatches(samples, batch_size))


class JaxResidentBatches(keras.utils.PyDataset):
    """Batches that are on the device."""

    def __init__(self, batches: list[Any]) -> None:
        super().__init__()
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]


class JaxHostBatches(keras.utils.PyDataset):
    """Batches that are read when they are needed."""

    def __init__(self, samples: Samples, batch_size: int) -> None:
        super().__init__()
        self._samples, self._batch_size = samples, batch_size

    def __len__(self) -> int:
        return feeding.count_batches(self._samples, self._batch_size)

    def __getitem__(self, index: int) -> Any:
        return feeding.read_batch(self._samples, self._batch_size, index)


def sum_gradients(optimizer: Any) -> None:
    """Do nothing: gradients are sums already."""


def tracing_record(arguments: Any) -> Any | None:
    """Return the shapes of the arguments of a traced step, from which it can be lowered."""
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
        return None
    return jax.tree.map(_shape, arguments)


def compilation_count() -> int:
    """Return how many programs XLA compiled or read from a cache on disk since the first trial."""
    return len(_compiled)


def reset_peak_memory() -> None:
    """Do nothing: JAX's peak is that of the process, and comparable in fresh processes only."""


def peak_gpu_mib() -> float | None:
    """Return the peak of XLA's allocator, in MiB; None on a CPU."""
    stats = jax.local_devices()[0].memory_stats()
    return None if not stats else stats["peak_bytes_in_use"] / BYTES_PER_MIB


def release_memory() -> None:
    """Release compiled programs and variables of a trial."""
    keras.utils.clear_session()
    jax.clear_caches()
    gc.collect()


def facts() -> Mapping[str, Fact]:
    """Return versions, devices, threads and switches that may explain a time."""
    devices = jax.local_devices()
    on_gpu = devices[0].platform == "gpu"
    return {
        **process_facts(),
        "jax": jax.__version__,
        "cuda_build": devices[0].client.platform_version if on_gpu else None,
        "cudnn_build": _cudnn() if on_gpu else None,
        "devices": ", ".join(device.device_kind for device in devices) if on_gpu else "CPU",
        "intra_op_threads": int(os.environ[_POOL]),
        "compilation_cache": jax.config.jax_compilation_cache_dir,
        "matmul_precision": jax.config.jax_default_matmul_precision,
        "tf32": jax.config.jax_default_matmul_precision == "tensorfloat32",
    }


def _record_compilation(event: str, seconds: float, **_: Any) -> None:
    if event == _COMPILED:
        _compiled.append(seconds)


def _fits(samples: Samples) -> bool:
    stats = jax.local_devices()[0].memory_stats() or {}
    free = stats.get("bytes_limit", 0) - stats.get("bytes_in_use", 0)
    return samples.nbytes <= free / RESIDENT_SHARE


def _shape(leaf: Any) -> Any:
    if not hasattr(leaf, "dtype"):
        return leaf
    weak = getattr(getattr(leaf, "aval", None), "weak_type", False)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak)


def _cudnn() -> str | None:
    for package in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None

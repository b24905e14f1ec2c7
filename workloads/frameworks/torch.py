"""PyTorch as the framework of this process. See `workloads.frameworks.Framework`."""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import keras
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

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

_BATCHES_AHEAD = 4
_configured = threading.Lock()  # taken by the first trial, for the life of the process


def configure(implementation: Implementation, device: Device) -> None:
    """Fix the thread pools (once) and the precision; by default cuDNN rounds to TF32."""
    if _configured.acquire(blocking=False):
        keep_out_tensorflow()
        torch.set_num_threads(usable_cpus())
        torch.set_num_interop_threads(usable_cpus())
    tf32 = implementation.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    set_dtype_policy(implementation)


def expect_device(device: Device) -> None:
    """Refuse a GPU trial if PyTorch sees no GPU."""
    if device == "gpu" and not torch.cuda.is_available():
        raise NotPossible(
            "device gpu: expected a GPU that PyTorch can use; it sees none: check the driver,"
            " CUDA_VISIBLE_DEVICES, and that PyTorch is a build for CUDA"
        )


def seed(seed: int) -> None:
    """Seed Python's, NumPy's and PyTorch's generators."""
    seed_python(seed)
    torch.manual_seed(seed)


def random_state() -> Any:
    """Return the states of PyTorch's generators, which draw the dropout of a fused stack."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), gpus


def restore_random_state(state: Any) -> None:
    """Restore the states of the generators."""
    cpu, gpus = state
    torch.set_rng_state(cpu)
    if gpus:
        torch.cuda.set_rng_state_all(gpus)


def synchronise(values: Any = None) -> None:
    """Wait for the GPU; on a CPU an operation is complete when it returns."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_feed(samples: Samples, batch_size: int, device: Device) -> Feed:
    """Return batches: cut once if they fit into the device's memory, else read one by one.

    Keras' own adapter for arrays collates every batch from single samples, which takes 1 ms.
    """
    if _fits(samples) if device == "gpu" else feeding.is_in_memory(samples):
        indices = range(feeding.count_batches(samples, batch_size))
        return _loader(
            TorchResidentBatches([_read(samples, batch_size, index) for index in indices])
        )
    return _loader(
        (TorchPrefetchedBatches if device == "gpu" else TorchHostBatches)(samples, batch_size)
    )


class TorchResidentBatches(Dataset[Any]):
    """Batches that are on the device."""

    def __init__(self, batches: list[Any]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]


class TorchHostBatches(Dataset[Any]):
    """Batches that are read when they are needed."""

    def __init__(self, samples: Samples, batch_size: int) -> None:
        self._samples, self._batch_size = samples, batch_size

    def __len__(self) -> int:
        return feeding.count_batches(self._samples, self._batch_size)

    def __getitem__(self, index: int) -> Any:
        return _read(self._samples, self._batch_size, index)


class TorchPrefetchedBatches(IterableDataset[Any]):
    """Batches that a thread copies ahead to the device."""

    def __init__(self, samples: Samples, batch_size: int) -> None:
        self._samples, self._batch_size = samples, batch_size

    def __len__(self) -> int:
        return feeding.count_batches(self._samples, self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        with ThreadPoolExecutor(1, "batches") as reader:
            ahead: deque[Future[Any]] = deque()
            for index in range(len(self)):
                ahead.append(reader.submit(_read, self._samples, self._batch_size, index))
                if len(ahead) > _BATCHES_AHEAD:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()


def sum_gradients(optimizer: Any) -> None:
    """Do nothing: gradients are sums already."""


def tracing_record(arguments: Any) -> Any | None:
    """Return None: no step is ever traced."""
    return None


def compilation_count() -> int:
    """Return 0: nothing is compiled."""
    return 0


def reset_peak_memory() -> None:
    """Reset the peak of the GPU's memory."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_gpu_mib() -> float | None:
    """Return the peak of PyTorch's allocations, in MiB; its reserved memory may be larger."""
    if not torch.cuda.is_available():
        return None
    return torch.cuda.max_memory_allocated() / BYTES_PER_MIB


def release_memory() -> None:
    """Release variables of a trial, and cached memory."""
    keras.utils.clear_session()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def facts() -> Mapping[str, Fact]:
    """Return versions, devices, threads and switches that may explain a time."""
    on_gpu = torch.cuda.is_available()
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        **process_facts(),
        "torch": torch.__version__,
        "cuda_build": torch.version.cuda,
        "cudnn_build": str(torch.backends.cudnn.version()) if on_gpu else None,
        "devices": ", ".join(gpus) or "CPU",
        "intra_op_threads": torch.get_num_threads(),
        "inter_op_threads": torch.get_num_interop_threads(),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "onednn": torch.backends.mkldnn.is_available(),
    }


def _loader(batches: Dataset[Any]) -> Feed:
    """Return a feed of these batches: nothing is collated, and nothing drawn at random."""
    return Feed(DataLoader(batches, batch_size=None, collate_fn=_unchanged))


def _unchanged(batch: Any) -> Any:
    return batch


def _read(samples: Samples, batch_size: int, index: int) -> Any:
    """Return one batch as tensors on the device that Keras computes on."""
    arrays = feeding.read_batch(samples, batch_size, index)
    return tuple(keras.ops.convert_to_tensor(array) for array in arrays)


def _fits(samples: Samples) -> bool:
    free, _ = torch.cuda.mem_get_info()
    return samples.nbytes <= free / RESIDENT_SHARE

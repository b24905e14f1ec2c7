"""PyTorch as this process runs it. See `workloads.frameworks.Framework`."""

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
    """Fix the thread pools (once) and the precision; by default cuDNN would round to TF32."""
    if _configured.acquire(blocking=False):
        keep_out_tensorflow()
        torch.set_num_threads(usable_cpus())
        torch.set_num_interop_threads(usable_cpus())
    tf32 = implementation.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    set_dtype_policy(implementation)


def expect_device(device: Device) -> None:
    """Refuse a GPU trial where PyTorch sees no GPU."""
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
    """The states of PyTorch's own generators, from which a fused stack's dropout is drawn."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), gpus


def restore_random_state(state: Any) -> None:
    """Put the generators back."""
    cpu, gpus = state
    torch.set_rng_state(cpu)
    if gpus:
        torch.cuda.set_rng_state_all(gpus)


def synchronise(values: Any = None) -> None:
    """Wait for the GPU; on a CPU each operation is done when it returns."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_feed(samples: Samples, batch_size: int, device: Device) -> Feed:
    """What is in the device's memory is cut once; the rest is read batch by batch.

    Keras' own way with arrays collates each batch from samples, a millisecond for nothing.
    """
    if _fits(samples) if device == "gpu" else feeding.is_in_memory(samples):
        every = range(feeding.count_batches(samples, batch_size))
        return _loader(TorchResidentBatches([_read(samples, batch_size, index) for index in every]))
    return _loader(
        (TorchPrefetchedBatches if device == "gpu" else TorchHostBatches)(samples, batch_size)
    )


class TorchResidentBatches(Dataset[Any]):
    """Batches that are there already."""

    def __init__(self, batches: list[Any]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]


class TorchHostBatches(Dataset[Any]):
    """Batches that are read when their turn comes."""

    def __init__(self, samples: Samples, batch_size: int) -> None:
        self._samples, self._batch_size = samples, batch_size

    def __len__(self) -> int:
        return feeding.count_batches(self._samples, self._batch_size)

    def __getitem__(self, index: int) -> Any:
        return _read(self._samples, self._batch_size, index)


class TorchPrefetchedBatches(IterableDataset[Any]):
    """Batches that a thread copies to the device before their turn."""

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
    """Nothing: gradients are sums."""


def tracing_record(arguments: Any) -> Any | None:
    """Nothing is ever traced: each step runs as it is."""
    return None


def compilation_count() -> int:
    """Nothing is compiled."""
    return 0


def reset_peak_memory() -> None:
    """Forget the peak of the GPU's memory."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_gpu_mib() -> float | None:
    """What PyTorch's allocator handed out at most; what it reserved may be more."""
    if not torch.cuda.is_available():
        return None
    return torch.cuda.max_memory_allocated() / BYTES_PER_MIB


def release_memory() -> None:
    """Drop variables of a trial, and give cached memory back."""
    keras.utils.clear_session()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def facts() -> Mapping[str, Fact]:
    """Versions, devices, threads and switches that may explain a time."""
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
    """Batches as they are: nothing is collated, and nothing drawn at random."""
    return Feed(DataLoader(batches, batch_size=None, collate_fn=_as_it_is))


def _as_it_is(batch: Any) -> Any:
    return batch


def _read(samples: Samples, batch_size: int, index: int) -> Any:
    """One batch as tensors on the device that Keras computes on."""
    each = feeding.read_batch(samples, batch_size, index)
    return tuple(keras.ops.convert_to_tensor(array) for array in each)


def _fits(samples: Samples) -> bool:
    free, _ = torch.cuda.mem_get_info()
    return samples.nbytes <= free / RESIDENT_SHARE

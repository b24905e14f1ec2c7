"""The batches that rnnsweep's loop trains a PyTorch module on. Imports PyTorch."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import keras
import numpy as np
import torch

from workloads.backends.feeding import Batches, is_in_memory
from workloads.data.array_trees import map_arrays
from workloads.data.samples import Samples
from workloads.protocol import Device

TensorBatches: TypeAlias = "KeptBatches | ReadBatches | CopiedAhead"
"""Batches of tensors on the device, in the samples' order, which can be iterated over again.

Each pass gives new tensors, as a `DataLoader` does: a module or a loss may write into them.
"""


def tensor_batches(samples: Samples, batch_size: int, device: Device) -> TensorBatches:
    """Return samples as batches of tensors; the last batch may be smaller.

    On a CPU they are cut once if the samples are in memory, else read one by one. On a GPU each is
    copied ahead of its use, and none is kept.
    """
    batches = Batches(samples, batch_size)
    if device == "gpu":
        return CopiedAhead(batches)
    return KeptBatches(batches) if is_in_memory(samples) else ReadBatches(batches)


class KeptBatches:
    """Batches as tensors in the memory of the host, which are cut once."""

    def __init__(self, batches: Batches) -> None:
        self._batches = list(ReadBatches(batches))

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        return (map_arrays(torch.clone, batch) for batch in self._batches)


class ReadBatches:
    """Batches as tensors in the memory of the host, each read when it is needed."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        return (map_arrays(keras.ops.convert_to_tensor, batch) for batch in self._batches)


class CopiedAhead:
    """Batches for a GPU: each is copied before the step on the batch before it begins.

    A copy from pinned memory returns at once, and the step waits for it on the GPU. So no thread
    is needed, which would take the interpreter from the steps.
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        copies = (map_arrays(_copy_to_gpu, batch) for batch in self._batches)
        current = next(copies, None)
        while current is not None:
            following = next(copies, None)
            yield current
            current = following


def to_tensor(array: Any) -> torch.Tensor:
    """Return an array as a tensor, in a process of any backend."""
    if array.dtype.name == "bfloat16":  # PyTorch reads no such array
        return torch.as_tensor(array.astype(np.float32)).to(torch.bfloat16)
    return torch.as_tensor(array)


def _copy_to_gpu(array: Any) -> torch.Tensor:
    """Start the copy of an array, without waiting for its end; keep it where there is no GPU."""
    with keras.device("cpu"):
        tensor: torch.Tensor = keras.ops.convert_to_tensor(array)
    if torch.cuda.is_available():
        tensor = tensor.pin_memory().to("cuda", non_blocking=True)
    return tensor

"""PyTorch: the check for a GPU is patched, and tensors on the CPU report that they are on a GPU."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from tests.workloads.stand_in_gpus import CUDNN, OTHER_KERNEL
from workloads.implementations import Implementation

_FUNCTIONS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class _Device(str):
    type = "cuda"


class _OnGpu(torch.Tensor):
    @property
    def device(self) -> Any:
        return _Device("cpu")


@contextmanager
def gpu() -> Iterator[None]:
    check = "keras.src.backend.torch.rnn._is_cuda_cudnn_available"
    with mock.patch(check, return_value=True), mock.patch(f"{__name__}._placed", _on_gpu):
        yield


def kernel(model: Any, inputs: Any, implementation: Implementation) -> str:
    with ExitStack() as stack:
        calls = [
            stack.enter_context(
                mock.patch.object(torch._VF, name, side_effect=getattr(torch._VF, name))
            )
            for name in _FUNCTIONS
        ]
        outputs = model(_placed(inputs), training=True)
    try:
        outputs.float().sum().backward()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return "a failed backward pass"
    return CUDNN if any(call.called for call in calls) else OTHER_KERNEL


def _on_gpu(inputs: Any) -> Any:
    return torch.as_tensor(inputs).as_subclass(_OnGpu)


_placed = torch.as_tensor

"""A module's batches for a GPU: when they are copied, and how. The GPU is a stand-in."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import threading
from typing import Any

from tests.workloads.shared_trainer import Trainer, result
from workloads.context import Context
from workloads.data.samples import Samples


def copy_batches(trial: Context) -> dict[str, float]:
    """Iterate over three batches; return how many were copied when each was given out."""
    from unittest import mock

    import numpy as np
    import torch

    from workloads.modules.batches import tensor_batches

    copies: list[dict[str, Any]] = []

    def copy(tensor: Any, device: str, **how: Any) -> Any:
        copies.append({"device": device, **how})
        return tensor

    samples = Samples(np.arange(5, dtype="float32"), np.arange(5))
    with (
        mock.patch("torch.cuda.is_available", return_value=True),
        mock.patch.object(torch.Tensor, "pin_memory", lambda tensor: tensor.clone()),
        mock.patch.object(torch.Tensor, "to", copy),
    ):
        before, copied_before, threads, given = threading.active_count(), [], [], []
        for inputs, targets in tensor_batches(samples, 2, "gpu"):
            copied_before.append(len(copies) // 2)
            threads.append(threading.active_count() - before)
            given.append((inputs.tolist(), targets.tolist()))
    assert given == [([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4], [4])], given
    return {
        **{f"copied_before_{n}": count for n, count in enumerate(copied_before)},
        "threads": max(threads),
        "waits": sum(copy != {"device": "cuda", "non_blocking": True} for copy in copies),
    }


def test_a_batch_is_copied_before_the_step_on_the_one_before_it_without_waiting(
    torch_trainer: Trainer,
) -> None:
    metrics = result(torch_trainer.ask(f"{__name__}:copy_batches", "torch/portable"))
    copied = [metrics[f"copied_before_{n}"] for n in range(3)]
    assert copied == [2, 3, 3]
    assert metrics["threads"] == 0
    assert metrics["waits"] == 0

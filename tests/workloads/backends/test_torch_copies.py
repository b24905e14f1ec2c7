"""PyTorch's batches for a GPU: when they are copied, and how. The GPU is a stand-in."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.building.tasks import find_task, load_and_build
from tests.workloads.shared_trainer import Trainer, result
from workloads.backends.feeding import Batches
from workloads.context import Context
from workloads.data.samples import Samples
from workloads.measuring.measurement import prepare_framework
from workloads.registry import own_model_name


def copy_batches(trial: Context) -> dict[str, float]:
    """Iterate over three batches; return how many were copied when each was given out."""
    from unittest import mock

    import numpy as np
    import torch

    from workloads.backends.torch.framework import CopiedAhead

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
        for inputs, targets in CopiedAhead(Batches(samples, 2)):
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


def train_masked_model(trial: Context) -> dict[str, float]:
    """Train a masked own model on batches for a GPU; return the loss, and the copies back."""
    from unittest import mock

    import torch

    from workloads.backends.torch import fused

    task = find_task(trial.settings["task"])
    settings = task.check_settings(trial.settings["settings"])
    original_cpu, original_lengths = torch.Tensor.cpu, fused._lengths_on_host
    copies, waits, calls = 0, 0, 0

    def copy(tensor: Any) -> Any:
        nonlocal copies
        copies += 1
        return original_cpu(tensor)

    def lengths_on_host(call: Any) -> Any:
        nonlocal waits, calls
        before = copies
        lengths = original_lengths(call)
        waits, calls = waits + copies - before, calls + 1
        return lengths

    with prepare_framework(trial), mock.patch.object(torch.Tensor, "cpu", copy):
        _, run = load_and_build(task, settings, trial)
        run = replace(run, device=trial.settings["fed_as"])
        run.fit(run.train_feed)  # Keras calls the model once more before its first step
        with mock.patch.object(fused, "_lengths_on_host", lengths_on_host):
            losses = run.fit(run.train_feed, epochs=2).history["loss"]
    return {"loss": losses[-1], "waits": waits, "calls": calls}


@pytest.mark.parametrize(
    ("build", "load", "settings"),
    [
        ("build_masked", "load_masked", {"type": "int32"}),
        ("build_masking", "load_masking", {}),
    ],
)
def test_a_masked_own_model_waits_for_no_lengths_and_has_the_same_loss(
    torch_trainer: Trainer, build: str, load: str, settings: dict[str, Any]
) -> None:
    module = "tests.workloads.examples.own_models"
    asked: dict[str, Any] = {
        "task": own_model_name(f"{module}:{build}", f"{module}:{load}"),
        "settings": {"units": 4, "batch_size": 8, "epochs": 1, **settings},
    }
    found = {
        device: result(
            torch_trainer.ask(
                f"{__name__}:train_masked_model",
                "torch/fused",
                settings={**asked, "fed_as": device},
                seed=3,
            )
        )
        for device in ("cpu", "gpu")
    }
    assert found["cpu"]["waits"] == found["cpu"]["calls"] > 0
    assert found["gpu"]["waits"] == 0
    assert found["gpu"]["calls"] == found["cpu"]["calls"]
    assert found["gpu"]["loss"] == found["cpu"]["loss"]


def run_with_padding_on_the_left(trial: Context) -> dict[str, float]:
    """Call a masked model on a batch that pads on the left, as it comes from a feed for a GPU."""
    import keras
    import numpy as np

    from workloads.backends.torch.framework import CopiedAhead

    task = find_task(trial.settings["task"])
    settings = task.check_settings(trial.settings["settings"])
    with prepare_framework(trial):
        _, run = load_and_build(task, settings, trial)
        tokens = np.array([[0, 0, 3, 4, 5, 6]], np.int32)
        ((inputs,),) = CopiedAhead(Batches(Samples(tokens, None), 1))
        try:
            keras.ops.convert_to_numpy(run.model(inputs))
        except ValueError as error:
            return {"is_refused": float("padding on the right" in str(error))}
    return {"is_refused": 0.0}


def test_padding_on_the_left_is_refused_where_the_host_knows_the_mask(
    torch_trainer: Trainer,
) -> None:
    module = "tests.workloads.examples.own_models"
    settings = {
        "task": own_model_name(f"{module}:build_masked", f"{module}:load_masked"),
        "settings": {"units": 4, "batch_size": 8, "type": "int32"},
    }
    found = result(
        torch_trainer.ask(
            f"{__name__}:run_with_padding_on_the_left", "torch/fused", settings=settings
        )
    )
    assert found["is_refused"] == 1

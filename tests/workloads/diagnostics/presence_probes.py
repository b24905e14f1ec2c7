"""Workloads that run in a trainer, for `test_presence`."""

# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from workloads.backends.kernel_evidence import Proof
from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.diagnostics.masked_batches import check_masks
from workloads.measuring.measurement import prepare_framework

right_masks = check_masks


def late_lengths(trial: Context) -> dict[str, float]:
    """Check masks where a batch that is not waited for has the lengths of the one before it."""
    framework = load_framework(trial.implementation.backend)
    make_passes, synchronise = framework.make_passes, framework.synchronise
    batches: list[Any] = []  # since the last wait

    def make_late_passes(model: Any, implementation: Any) -> Any:
        passes = make_passes(model, implementation)

        def forward(batch: Any) -> Any:
            batches.append(batch)
            return passes.forward(batches[-2] if len(batches) > 1 else batch)

        return replace(passes, forward=forward)

    def wait(values: Any = None) -> None:
        batches.clear()
        synchronise(values)

    with (
        mock.patch.object(framework, "make_passes", make_late_passes),
        mock.patch.object(framework, "synchronise", wait),
    ):
        return check_masks(trial)


def swallowed_error(trial: Context) -> dict[str, float]:
    """Call Keras' cuDNN layer on a stand-in for a GPU, where one call of cuDNN fails."""
    with prepare_framework(trial) as framework:
        import keras
        import torch

        from tests.workloads.stand_in_gpus.torch import _on_gpu, gpu
        from workloads.backends.torch.framework import TorchFramework

        assert isinstance(framework, TorchFramework)
        inputs = _on_gpu(np.ones((2, 5, 3), "float32"))
        with gpu():
            layer = keras.layers.LSTM(4, use_cudnn=True)
            expected = layer(inputs)
            if trial.settings.get("fails", True):
                error = RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED")
                with mock.patch.object(torch._VF, "lstm", side_effect=error):
                    outputs = layer(inputs)
                np.testing.assert_allclose(
                    outputs.detach().numpy(), expected.detach().numpy(), atol=1e-5
                )
        proof = framework.judge_proof(Proof("cudnn", "scripted"))
        trial.kernel("cudnn", proof.ran, proof.evidence)
        return {"errors": float(framework.cudnn_errors.count)}

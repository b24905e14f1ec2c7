"""Workloads that use the framework of any backend, as `measure` and `synthetic` do."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from typing import Any

import numpy as np

from workloads.backends.loading import load_framework
from workloads.context import Context
from workloads.failures import NotPossible
from workloads.measuring.measurement import prepare_framework


def compute(trial: Context) -> dict[str, float]:
    """Run a small model forward; report what a framework promises."""
    with prepare_framework(trial) as framework:
        import keras

        layers = [keras.Input((3, 2)), keras.layers.SimpleRNN(4), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        passes = framework.make_passes(model, trial.implementation)
        batch = np.arange(30, dtype=np.float32).reshape(5, 3, 2) / 30
        outputs = passes.forward(passes.place(batch))
        framework.synchronise(outputs)
        expected = keras.ops.convert_to_numpy(model(keras.ops.convert_to_tensor(batch)))
        state = framework.random_state()
        framework.restore_random_state(state)
        return {
            "same_object": float(load_framework(trial.implementation.backend) is framework),
            "difference": float(np.abs(keras.ops.convert_to_numpy(outputs) - expected).max()),
            "sees_gpu": float(framework.has_gpu()),
            "refuses_gpu": float(_refuses_gpu(framework)),
            "reads_gpu_memory": float(framework.peak_gpu_mib() is not None),
        }


def _refuses_gpu(framework: Any) -> bool:
    try:
        framework.expect_device("gpu")
    except NotPossible as error:
        return framework.backend.title in str(error)
    return False

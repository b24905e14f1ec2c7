"""Trainers that see an H100, in each process that has this folder in its PYTHONPATH.

Python imports this module when it starts. What a workload would compute is scripted; planning, Ray,
the trainer's own checks, telemetry, records and reports are real. As in the environment for CUDA
13, PyTorch and JAX are installed and TensorFlow is not, whatever is installed here.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from typing import Any

DEVICES_WORKLOAD = "workloads.diagnostics.devices:report_devices"

_find_spec = importlib.util.find_spec


def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
    """Return what `importlib.util.find_spec` would in the environment for CUDA 13."""
    if name in ("torch", "jax"):
        return _find_spec(name, package) or ModuleSpec(name, None)
    return None if name == "tensorflow" else _find_spec(name, package)


def load_entry(workload: Any) -> Callable[[Any], Mapping[str, float]]:
    """Return the scripted work of any workload."""

    def run(trial: Any) -> Mapping[str, float]:
        backend, on_gpu = trial.implementation.backend, trial.device == "gpu"
        devices = "NVIDIA H100" if on_gpu else "CPU"
        trial.environment(keras="3.15.1", backend=backend, devices=devices, **{backend: "2.0"})
        if workload.name == DEVICES_WORKLOAD:
            return {}
        kernel = trial.implementation.kernel_text
        trial.kernel(kernel, kernel, "scripted")
        with trial.phase("train"):
            pass
        step_ms = 2.0 if on_gpu else 40.0
        return {"step_ms": step_ms, "step_ms_median": step_ms, "forward_ms": step_ms / 3}

    return run


importlib.util.find_spec = find_spec
if "workloads" in sys.orig_argv:  # python -m workloads
    from workloads import trainer

    vars(trainer)["load_entry"] = load_entry

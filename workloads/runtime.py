"""TensorFlow as this process runs it: threads, precision, synchronisation, and facts about it."""

from __future__ import annotations

import gc
import platform
import threading
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from workloads.context import Fact
from workloads.cpus import usable_cpus
from workloads.failures import NotPossible
from workloads.protocol import Device

_configured = threading.Lock()  # taken by the first trial, for the life of the process


def configure(precision: str) -> None:
    """Fix the thread pools (once a process) and the precision of this trial.

    Pools follow the CPU affinity and the cgroup's quota: TensorFlow would size them by the
    machine, and it does not read `OMP_NUM_THREADS`.
    """
    if _configured.acquire(blocking=False):
        tf.config.threading.set_intra_op_parallelism_threads(usable_cpus())
        tf.config.threading.set_inter_op_parallelism_threads(usable_cpus())
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")


def expect_device(device: Device) -> None:
    """Refuse a GPU trial where no GPU is visible: TensorFlow would quietly run it on the CPU.

    Raises:
        NotPossible: TensorFlow sees no GPU.
    """
    if device == "gpu" and not tf.config.list_logical_devices("GPU"):
        raise NotPossible(
            "device gpu: expected a GPU that TensorFlow can use; it sees none: check the driver,"
            " CUDA_VISIBLE_DEVICES, and that rnnsweep[gpu] is installed"
        )


def forget() -> None:
    """Drop graphs, functions and variables of a trial, so that a warm process does not grow.

    Keras reduces gradients through a `tf.custom_gradient`, which TensorFlow registers anew in
    each traced graph and never removes; it holds the graph, 9 MiB for the smallest model. What
    XLA has compiled stays all the same (about 30 MiB a trial): nothing in Python can drop it.
    """
    registered = getattr(getattr(ops, "gradient_registry", None), "_registry", {})
    for name in [name for name in registered if name.startswith("CustomGradient-")]:
        del registered[name]
    keras.utils.clear_session()
    gc.collect()


def synchronise() -> None:
    """Wait until every device has done what it was given."""
    tf.test.experimental.sync_devices()


def facts() -> Mapping[str, Fact]:
    """Versions, devices, threads and switches that may explain a time."""
    build = tf.sysconfig.get_build_info()
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return {
        "python": platform.python_version(),
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
        "backend": keras.backend.backend(),
        "cuda_build": build.get("cuda_version"),
        "cudnn_build": build.get("cudnn_version"),
        "devices": ", ".join(str(d.get("device_name", "GPU")) for d in details) or "CPU",
        "usable_cpus": usable_cpus(),
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "auto_clustering": str(tf.config.optimizer.get_jit() or "off"),
    }

"""Parts that all frameworks share in a trainer process: dtype policy, Python's seeds, facts."""

from __future__ import annotations

import platform
import random
import sys
from collections.abc import Mapping

import keras
import numpy as np

from workloads.context import Fact
from workloads.cpus import usable_cpus
from workloads.implementations import Implementation

BYTES_PER_MIB = 2**20

RESIDENT_SHARE = 4
"""Data stays on the device if it fits into 1 / RESIDENT_SHARE of the free memory."""

_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def set_dtype_policy(implementation: Implementation) -> None:
    """Set the number format that new layers compute in; their variables are float32."""
    policy = _POLICIES.get(implementation.precision, "float32")
    keras.config.set_dtype_policy(policy)


def keep_out_tensorflow() -> None:
    """Hide TensorFlow from Keras in a process of another backend.

    Keras would import TensorFlow to serialise a layer, which `Bidirectional` does in its
    constructor: that takes ten seconds of the load time, and hundreds of MiB.
    """
    sys.modules.setdefault("tensorflow", None)  # type: ignore[arg-type] # an import then fails


def seed_python(seed: int) -> None:
    """Seed Python and NumPy: `keras.utils.set_random_seed` without TensorFlow."""
    random.seed(seed)
    np.random.seed(seed)


def process_facts() -> Mapping[str, Fact]:
    """Return the facts that every framework reports."""
    return {
        "python": platform.python_version(),
        "keras": keras.__version__,
        "numpy": np.__version__,
        "backend": keras.backend.backend(),
        "usable_cpus": usable_cpus(),
        "dtype_policy": keras.config.dtype_policy().name,
    }

"""A file that sets the dtype policy for all layers."""

import keras

from tests.workloads.examples.own_models import build, load

__all__ = ["build", "load"]

keras.mixed_precision.set_global_policy("mixed_bfloat16")

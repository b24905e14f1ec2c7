"""A file that changes Keras' backend after its import."""

import keras

from tests.workloads.examples.own_models import build, load

__all__ = ["build", "load"]

keras.config.set_backend("numpy")

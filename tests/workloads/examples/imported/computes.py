"""A file that chooses a backend and computes when it is imported, as scripts of Keras do."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras

from tests.workloads.examples.own_models import build, load

__all__ = ["build", "load"]

TWICE = 2 * keras.ops.ones((3,))
OPTIMIZER = keras.optimizers.Adam()
MODEL = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

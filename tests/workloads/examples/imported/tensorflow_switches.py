"""A file that changes switches of TensorFlow, and the threads before its first operation."""

import tensorflow as tf

from tests.workloads.examples.own_models import build, load

__all__ = ["build", "load"]

tf.config.optimizer.set_jit(True)
tf.config.experimental.enable_op_determinism()
tf.config.threading.set_intra_op_parallelism_threads(7)

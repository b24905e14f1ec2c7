"""A file that changes the threads of TensorFlow, and then computes."""

import tensorflow as tf

from tests.workloads.examples.own_models import build, load

__all__ = ["build", "load"]

tf.config.threading.set_intra_op_parallelism_threads(7)
TABLE = tf.constant([1.0])

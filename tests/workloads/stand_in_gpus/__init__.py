"""Simulated GPUs, which show on a CPU what Keras would run on a GPU.

Every backend has a module with `gpu`, a context in which Keras detects a GPU, and `kernel`, which
returns what a training step would run: `CUDNN`, `OTHER_KERNEL`, or a description of a failure.
"""

CUDNN = "cuDNN"
OTHER_KERNEL = "another kernel, silently"

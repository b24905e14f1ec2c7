"""Simulated GPUs, which show on a CPU what Keras would run on a GPU.

Nothing is measured and no cuDNN runs. Every backend has a module with

* `gpu()`, a context in which Keras detects a GPU;
* `kernel(model, inputs, implementation)`, which returns what a training step of the model would
  run: `CUDNN`, `OTHER_KERNEL`, or a description of a failure.
"""

CUDNN = "cuDNN"
OTHER_KERNEL = "another kernel, silently"

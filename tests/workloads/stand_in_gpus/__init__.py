"""GPUs that are pretended, so that Keras tells on a CPU what it would do on a GPU.

Nothing is measured and no cuDNN runs. Each backend has a module with

* `gpu()`, a context in which Keras believes in a GPU;
* `kernel(model, inputs, implementation)`, what a training step of the model would run, in words:
  `CUDNN`, `ELSEWHERE`, or another that says what fails.
"""

CUDNN = "cuDNN"
ELSEWHERE = "another kernel, quietly"

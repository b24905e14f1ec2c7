"""TensorFlow, JAX and PyTorch behind one interface, one module for each backend."""

from workloads.frameworks.framework import Framework, load_framework

__all__ = ["Framework", "load_framework"]

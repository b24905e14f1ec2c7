"""Simulated GPUs: modules with a context `gpu` in which Keras detects one, and a `kernel`."""
# `kernel` returns what a training step would run: a constant below, or the failure in words.

CUDNN = "cuDNN"
OTHER_KERNEL = "another kernel, silently"

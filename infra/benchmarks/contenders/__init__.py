"""Contenders of `infra.benchmarks.steps` and `own_model`: scripts that call Keras' `fit`."""

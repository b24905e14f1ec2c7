"""Contenders of `tests.benchmarks.steps`. `bare_keras` and `hand_written` do without rnnsweep."""

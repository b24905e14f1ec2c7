"""Contenders of `infra.benchmarks.steps`. `bare_keras` and `hand_written` do without rnnsweep."""

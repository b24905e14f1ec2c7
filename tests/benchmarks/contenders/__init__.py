"""Contenders of `tests.benchmarks.steps`. `bare_keras` and `hand_written` do without rnnsweep.

These scripts read data and initial weights from a question's file, and answer each line on standard
input with one on standard output.
"""

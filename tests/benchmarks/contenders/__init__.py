"""Contenders of `tests.benchmarks.steps`: processes that train the same model in turn.

`question` writes the data and the initial weights to a file. `bare_keras` and `hand_written` are
scripts without rnnsweep. They read that file, and answer each line on standard input
with one on standard output. `processes` keeps them and rnnsweep's own trainer running.
"""

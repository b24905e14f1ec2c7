"""The parts of `tests.benchmarks.trust`: each a promise, and what was found of it."""
